/** What workers report. Times are milliseconds of the machine's monotonic clock. */
export type Seen =
  | { readonly kind: 'active'; readonly worker: string; readonly id: string; readonly at: number }
  | {
      readonly kind: 'started'
      readonly worker: string
      /** Names this run in the whole episode. */
      readonly run: string
      /** The first run of its batch. */
      readonly batch: string | undefined
      readonly id: string
      readonly timestamp: number
      readonly uid: string
      readonly name: string
      readonly key: string
      readonly attempt: number
      readonly resources: readonly string[]
      readonly fencingToken: number
      readonly at: number
      readonly trustedUntil: number
    }
  | { readonly kind: 'step'; readonly run: string; readonly step: string; readonly at: number }
  /** A step that the processor did not wait for has ended. */
  | { readonly kind: 'forgotten'; readonly run: string; readonly at: number }
  | {
      /** A step had a value: that of this instance of a job. */
      readonly kind: 'stepValue'
      readonly run: string
      readonly step: string
      readonly of: string
    }
  | {
      /** Its signal has aborted. */
      readonly kind: 'stopped'
      readonly run: string
      readonly reason: string
      readonly at: number
      readonly trustedUntil: number
    }
  | {
      readonly kind: 'ended'
      readonly run: string
      readonly outcome: 'done' | 'failed'
      readonly error?: string
      readonly at: number
      readonly trustedUntil: number
    }
  | {
      readonly kind: 'leaseLost' | 'lockLost' | 'stalled' | 'requeued' | 'completed'
      readonly worker: string
      readonly id: string
      readonly at: number
    }
  | {
      readonly kind: 'failed'
      readonly worker: string
      readonly id: string
      readonly reason: string
      readonly at: number
    }
  | {
      readonly kind: 'error'
      readonly worker: string
      readonly message: string
      readonly at: number
    }

export type Started = Extract<Seen, { kind: 'started' }>
export type Stopped = Extract<Seen, { kind: 'stopped' }>
export type Ended = Extract<Seen, { kind: 'ended' }>

/** The same clock in all processes of the machine. */
export function machineMs(): number {
  return Number(process.hrtime.bigint()) / 1e6
}

/** Names one instance of a job. */
export function instanceOf(job: { uid: string; id: string; timestamp: number }): string {
  return `${job.uid}/${job.id}/${job.timestamp}`
}
