/**
 * The options of BullMQ's `moveToFinished`, of a job and of its worker, as its backend packs them.
 */
import type { JobsOptions, KeepJobs, QueueBaseOptions, WorkerOptions } from 'bullmq'

/** @returns JSON of them, by their names in BullMQ's text. */
export function finishOptions(
  opts: JobsOptions,
  keepJobs: KeepJobs,
  { name, limiter, lockDuration, metrics }: QueueBaseOptions & Partial<WorkerOptions>,
): string {
  const { count, age, limit } = keepJobs as { count?: number; age?: number; limit?: number }
  // BullMQ's text takes null for undefined, and Lua has a value of its own for the null of JSON.
  return JSON.stringify({
    keepJobs: { count: count ?? undefined, age: age ?? undefined, limit: limit ?? undefined },
    attempts: opts.attempts ?? undefined,
    fpof: Boolean(opts.failParentOnFailure) || undefined,
    cpof: Boolean(opts.continueParentOnFailure) || undefined,
    idof: Boolean(opts.ignoreDependencyOnFailure) || undefined,
    rdof: Boolean(opts.removeDependencyOnFailure) || undefined,
    name: name ?? undefined,
    limiter: limiter ?? undefined,
    // Redis makes a text of a number for every command.
    lockDuration: String(lockDuration),
    maxMetricsSize: metrics?.maxDataPoints ? metrics.maxDataPoints : '',
  })
}

/** With the token of the lock. BullMQ packs no others. */
export const FINISH_OPTIONS = 11
