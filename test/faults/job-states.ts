/** Where a job is, in the order in which it gets there. */
export const JOB_STATES = ['admitted', 'read', 'worked', 'written'] as const

/** `requeued` when the job has to wait instead. */
export type JobState = (typeof JOB_STATES)[number] | 'requeued'

export interface CustomerJob {
  readonly customer: string
}

/** What a worker process is given as its argument, in JSON. */
export interface WorkerSetup {
  readonly queue: string
  readonly connection: { readonly host: string; readonly port: number }
  readonly masters: readonly string[]
  readonly namespace: string
  readonly storeUrl: string
  readonly leaseMs: number
  readonly maxLeaseMs: number
  readonly concurrency: number
  /** How long a job takes in the middle, at most. */
  readonly workMs: number
}
