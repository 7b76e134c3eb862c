import type { ConnectionOptions } from 'bullmq'
import type { LockService } from '../lock/lock-service.ts'

/**
 * What `bullmq-redlock work` gives to the function that a worker module exports.
 * @example
 * ```ts
 * const ledger = ({ connection, redlock }: WorkerContext) =>
 *   new LockedWorker('ledger', processor, { connection, redlock, resource })
 * ```
 */
export interface WorkerContext {
  /**
   * A `Redlock` on the masters of the command line, or the service that `--locks` names; closed
   * after the workers. Reading it without either is a usage error.
   */
  readonly redlock: LockService
  /** BullMQ's connection to the queue's Redis: options, or the client of a cluster. */
  readonly connection: ConnectionOptions
  /** BullMQ's key prefix. */
  readonly prefix: string
  /** Aborts when the process is asked to stop. */
  readonly signal: AbortSignal
}
