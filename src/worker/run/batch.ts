/**
 * Several jobs of one resource under one lease and one fencing token. The first job of the line
 * gets the lease and takes those that sleep behind it, in their order. Each has its own BullMQ lock
 * and keeps its place, so a crash puts all of them back where they were. Each ends by itself, and
 * the first one last: its trip hands the line on.
 */
import type { Job } from 'bullmq'
import { counted } from '../../counted.ts'
import { integerOption, knownOptions, refuse } from '../../options.ts'
import type { JobLease } from './job-lease.ts'

/** How many jobs make a batch. */
export interface BatchOptions {
  /** The most jobs of a batch. */
  readonly size: number
  /** How long a batch that is not full waits for more jobs. @defaultValue 0 */
  readonly waitMs?: number
}

/**
 * Runs jobs of one resource, in the order of their line.
 * @returns what became of each, in the same order: as `Promise.allSettled` says it. What it throws,
 * all jobs fail with.
 */
export type BatchRun<Data, Result, Name extends string = string> = (
  jobs: readonly Job<Data, Result, Name>[],
  lease: JobLease & string,
) => Promise<readonly PromiseSettledResult<Result>[]>

/* eslint-disable @typescript-eslint/no-explicit-any -- the defaults of BullMQ's own classes */
export interface Batched<Data = any, Result = any, Name extends string = string> {
  readonly size: number
  readonly waitMs: number
  readonly run: BatchRun<Data, Result, Name>
}

/** A processor of batches, as `new LockedWorker` takes it. */
export interface BatchProcessor<Data, Result, Name extends string = string> {
  /** Runs one job by itself, for a worker without lines. */
  (job: Job<Data, Result, Name>, lease: JobLease & string): Promise<Result>
  /** @internal */
  readonly [BATCHED]: Batched<Data, Result, Name>
}

const BATCHED: unique symbol = Symbol.for('bullmq-redlock.batched')
const OPTIONS = { size: true, waitMs: true } as const
const MAX_SIZE = 1_000
const MAX_WAIT_MS = 60_000

/**
 * A processor for {@link LockedWorker} that is given up to `size` jobs of one resource at once.
 * Jobs of a `LockedQueue` form batches. A job of an ordinary `Queue` runs alone, and so does a job
 * of several resources. `concurrency` counts batches.
 * @throws TypeError for a bad option.
 * @example
 * ```ts
 * const processor = batchProcessor({ size: 10 }, (jobs, { signal, fencingToken }) =>
 *   Promise.allSettled(jobs.map(({ data }) => charge(data, { signal, fencingToken }))),
 * )
 * const resource = (job: Job): string => `customer:${job.data.customerId}`
 * new LockedWorker('charges', processor, { connection, redlock, resource })
 * ```
 */
export function batchProcessor<Data = any, Result = any, Name extends string = string>(
  options: BatchOptions,
  run: BatchRun<Data, Result, Name>,
): BatchProcessor<Data, Result, Name> {
  knownOptions({ ...options }, OPTIONS)
  const { size, waitMs = 0 } = options
  integerOption('size', size, 1, MAX_SIZE)
  integerOption('waitMs', waitMs, 0, MAX_WAIT_MS)
  if (typeof run !== 'function') refuse('run', 'a function of (jobs, lease)', run)
  // For a worker without lines.
  const alone = async (job: Job<Data, Result, Name>, lease: JobLease & string): Promise<Result> => {
    const [outcome] = settledOf(await run([job], lease), 1)
    return settledValue(outcome)
  }
  return Object.assign(alone, { [BATCHED]: { size, waitMs, run } })
}

/** What a processor was made with by {@link batchProcessor}. */
export function batchedOf(processor: object): Batched | undefined {
  return (processor as Partial<BatchProcessor<unknown, unknown>>)[BATCHED]
}

/** @throws TypeError where a batch does not say what became of each of its jobs. */
export function settledOf<Result>(
  outcomes: readonly PromiseSettledResult<Result>[],
  count: number,
): readonly PromiseSettledResult<Result>[] {
  const given: unknown = outcomes
  const isSettled = ({ status }: { readonly status: string }): boolean =>
    status === 'fulfilled' || status === 'rejected'
  if (Array.isArray(given) && outcomes.length === count && outcomes.every(isSettled)) {
    return outcomes
  }
  throw new TypeError(
    `A batch of ${counted(count, 'job')} must return ${counted(count, 'outcome')}, as Promise.allSettled does`,
  )
}

/** @throws what a job failed with. */
export function settledValue<Result>(outcome: PromiseSettledResult<Result> | undefined): Result {
  if (outcome?.status === 'fulfilled') return outcome.value
  throw outcome?.reason
}
