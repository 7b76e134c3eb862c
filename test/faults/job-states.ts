/**
 * Where a job is, in the order in which it gets there: `fetched` before it asks for its lease.
 * `requeued` when the job has to wait instead.
 */
export type JobState = 'fetched' | 'admitted' | 'read' | 'worked' | 'written' | 'requeued'

export interface CustomerJob {
  readonly customer: string
}

/** How a worker process is told to end: `locks-first` closes its Redlock under its running jobs. */
export const STOPS = ['close', 'drain', 'locks-first'] as const
export type Stop = (typeof STOPS)[number]

/** What a worker process says: that it works, or where one of its jobs is. */
export type Sighting =
  | { readonly state: 'ready'; readonly at: number }
  | {
      readonly state: JobState
      /** On the clock that all processes of the machine share. */
      readonly at: number
      readonly queue: string
      readonly customer: string
      /** Names one instance of a job: an id may be used again after the job was removed. */
      readonly instance: string
    }

export function instanceOf(id: string | undefined, timestamp: number): string {
  return `${id ?? '?'}@${timestamp}`
}

/** What a worker process is given as its argument, in JSON. */
export interface WorkerSetup {
  readonly queue: string
  /** Other queues whose jobs touch the same customers. */
  readonly moreQueues?: readonly string[]
  readonly connection: { readonly host: string; readonly port: number }
  readonly masters: readonly string[]
  /** The address of another lock service. */
  readonly locks?: string
  readonly namespace: string
  readonly storeUrl: string
  /** Where to log its leases, if anywhere. */
  readonly leaseLogs?: string
  readonly leaseMs: number
  readonly maxLeaseMs: number
  readonly concurrency: number
  /** How long a job takes in the middle, at most. */
  readonly workMs: number
}
