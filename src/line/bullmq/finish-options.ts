/**
 * The options of BullMQ's `moveToFinished`, as its backend packs them: those of a job, and those of
 * its worker.
 */
import type { JobsOptions, KeepJobs, QueueBaseOptions, WorkerOptions } from 'bullmq'

/** By their names in BullMQ's text. What is undefined is absent. */
export function finishOptions(
  opts: JobsOptions,
  keepJobs: KeepJobs,
): Readonly<Record<string, unknown>> {
  const { failParentOnFailure, continueParentOnFailure } = opts
  const { ignoreDependencyOnFailure, removeDependencyOnFailure } = opts
  return {
    keepJobs,
    attempts: opts.attempts,
    fpof: failParentOnFailure === true || undefined,
    cpof: continueParentOnFailure === true || undefined,
    idof: ignoreDependencyOnFailure === true || undefined,
    rdof: removeDependencyOnFailure === true || undefined,
  }
}

export function workerOptions(
  opts: QueueBaseOptions & Partial<WorkerOptions>,
): Readonly<Record<string, unknown>> {
  const { name, limiter, lockDuration, metrics } = opts
  return { name, limiter, lockDuration, maxMetricsSize: metrics?.maxDataPoints ?? '' }
}

/** With the token of the lock. BullMQ packs no others. */
export const FINISH_OPTIONS = 11
