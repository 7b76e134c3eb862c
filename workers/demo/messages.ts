/** What the demo and its worker processes tell each other. */
import type { Without } from './options.ts'

/** Given to a worker process as its first argument, as JSON. */
export interface WorkerConfig {
  readonly name: string
  readonly queue: string
  readonly queueUrl: string
  readonly masters: readonly string[]
  /** The address of another lock service. */
  readonly locks: string | undefined
  readonly databaseUrl: string
  readonly leaseMs: number
  readonly maxLeaseMs: number
  readonly concurrency: number
  readonly workMs: number
  readonly without: Without | undefined
  /** Where it logs its leases. */
  readonly leaseLogs: string
}

/**
 * To a worker: stop at your next write, after its check of the lease and before the write itself.
 */
export type Order = 'hold'

export interface JobFacts {
  readonly jobId: string
  readonly customer: string
  readonly fencingToken: number
}

/** From a worker, as it happens. */
export type Report =
  | { readonly type: 'ready' }
  | { readonly type: 'status'; readonly leases: number }
  | ({ readonly type: 'opened' | 'holding' | 'posted' } & JobFacts)
  /** It was held this long, and writes now. */
  | ({ readonly type: 'released'; readonly heldMs: number } & JobFacts)
  | ({ readonly type: 'refused'; readonly currentToken: number } & JobFacts)
  | { readonly type: 'finished' | 'leaseLost' | 'requeued'; readonly jobId: string }
  | { readonly type: 'failed'; readonly jobId: string; readonly message: string }
  | { readonly type: 'error'; readonly message: string }

/** The file descriptor on which a held worker waits, blocked, for a byte. */
export const HOLD_FD = 4
