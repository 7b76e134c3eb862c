import type { Redlock } from '../../redlock/redlock.ts'

/** What `bullmq-redlock work` gives to the function that a worker module exports. */
export interface WorkerContext {
  /** Of the masters on the command line; closed after the workers. Reading it without masters is a usage error. */
  readonly redlock: Redlock
  /** BullMQ's connection options for the queue's Redis on the command line. */
  readonly connection: { readonly url: string }
  /** BullMQ's key prefix. */
  readonly prefix: string
  /** Aborts when the process is asked to stop. */
  readonly signal: AbortSignal
}
