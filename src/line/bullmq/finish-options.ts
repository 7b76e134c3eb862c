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
let last: { readonly text: string; readonly options: FinishOptions } | undefined

export function finishOptions(opts: JobsOptions, keepJobs: KeepJobs): FinishOptions {
  const { count, age, limit } = keepJobs as { count?: number; age?: number; limit?: number }
  // BullMQ's text takes null for undefined, and Lua has a value of its own for the null of JSON.
  const text = JSON.stringify({
    keepJobs: { count: count ?? undefined, age: age ?? undefined, limit: limit ?? undefined },
    attempts: opts.attempts ?? undefined,
    fpof: Boolean(opts.failParentOnFailure) || undefined,
    cpof: Boolean(opts.continueParentOnFailure) || undefined,
    idof: Boolean(opts.ignoreDependencyOnFailure) || undefined,
    rdof: Boolean(opts.removeDependencyOnFailure) || undefined,
  })
  if (last?.text !== text) last = { text, options: JSON.parse(text) as FinishOptions }
  return last.options
}

export function workerOptions(
  opts: QueueBaseOptions & Partial<WorkerOptions>,
): Readonly<Record<string, unknown>> {
  const { name, limiter, lockDuration, metrics } = opts
  const maxMetricsSize = metrics?.maxDataPoints ? metrics.maxDataPoints : ''
  return { name: name ?? undefined, limiter: limiter ?? undefined, lockDuration, maxMetricsSize }
}

/** With the token of the lock. BullMQ packs no others. */
export const FINISH_OPTIONS = 11
