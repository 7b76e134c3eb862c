/**
 * The options of BullMQ's `moveToFinished`, as its backend packs them: those of a job, and those of
 * its worker.
 */
import type { JobsOptions, KeepJobs, QueueBaseOptions, WorkerOptions } from 'bullmq'

/** By their names in BullMQ's text. What is undefined is absent. */
export interface FinishOptions {
  readonly keepJobs: KeepJobs
  readonly attempts?: number | undefined
  readonly fpof?: true | undefined
  readonly cpof?: true | undefined
  readonly idof?: true | undefined
  readonly rdof?: true | undefined
}

/** Those of a job before: most have the same ones, which then are the same object. */
let last: { readonly key: string; readonly options: FinishOptions } | undefined

export function finishOptions(opts: JobsOptions, keepJobs: KeepJobs): FinishOptions {
  const options: FinishOptions = {
    keepJobs,
    attempts: opts.attempts,
    fpof: opts.failParentOnFailure === true || undefined,
    cpof: opts.continueParentOnFailure === true || undefined,
    idof: opts.ignoreDependencyOnFailure === true || undefined,
    rdof: opts.removeDependencyOnFailure === true || undefined,
  }
  const key = JSON.stringify(options)
  if (last?.key !== key) last = { key, options }
  return last.options
}

export function workerOptions(
  opts: QueueBaseOptions & Partial<WorkerOptions>,
): Readonly<Record<string, unknown>> {
  const { name, limiter, lockDuration, metrics } = opts
  return { name, limiter, lockDuration, maxMetricsSize: metrics?.maxDataPoints ?? '' }
}

/** With the token of the lock. BullMQ packs no others. */
export const FINISH_OPTIONS = 11
