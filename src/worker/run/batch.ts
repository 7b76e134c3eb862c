/**
 * Several jobs of one resource under one lease and one fencing token. The first job of the line
 * gets the lease and takes those that sleep behind it, in their order. Each has its own BullMQ lock
 * and keeps its place, so a crash puts all of them back where they were. Each ends by itself, and
 * the first one last: its trip hands the line on.
 */
import type { Job } from 'bullmq'
import { sleep, systemClock } from '../../clock.ts'
import { counted } from '../../counted.ts'
import type { LineBackend } from '../../line/line-backend.ts'
import { take, type TakenJob } from '../../line/turns.ts'
import { integerOption, knownOptions, refuse } from '../../options.ts'
import { insistToStart, NotStarted } from './admission.ts'
import { assertWanted, hasMoved, settledValue } from './failure.ts'
import type { JobLease } from './job-lease.ts'
import { processOf, type Process } from './job-runs.ts'
import type { Visit, Visits } from './visits.ts'

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
interface Batched<
  Data = any,
  Result = any,
  Name extends string = string,
> extends Required<BatchOptions> {
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
function settledOf<Result>(
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

/** Where a batch gets its jobs from. */
export interface BatchSource {
  readonly lines: LineBackend
  readonly visits: Visits
  /** BullMQ's job, opened; undefined where the next job of its scheduler could not be added. */
  readonly open: (taken: TakenJob, token: string) => Promise<Job | undefined>
  /** BullMQ starts it as any job. Resolves when it has ended, well or not. */
  readonly run: (job: Job, token: string) => Promise<unknown>
  /** Whether the worker fetches jobs now. */
  readonly fetches: () => boolean
}

type Outcome = PromiseSettledResult<unknown>

/** A job of a batch that is not its first. */
interface BatchMember {
  readonly job: Job
  readonly settle: (outcome: Outcome) => void
  /** Its last trip is under way. */
  readonly sent: Promise<void>
}

/** Polls for more jobs within `waitMs`. */
const POLLS = 10
const MIN_POLL_MS = 5
const MAX_POLL_MS = 250

/**
 * Runs jobs in batches.
 * @param alone runs a job of several resources.
 */
export function batching(
  alone: Process,
  { size, waitMs, run }: Batched,
  source: BatchSource,
): Process {
  return async (first, lease) => {
    first.options.channel.tell('batch:started', { job: first.job })
    if (size === 1 || first.resources.length > 1) return alone(first, lease)
    first.first = first
    const members: BatchMember[] = []
    const until = systemClock.now() + waitMs
    const more = (): Promise<readonly BatchMember[]> =>
      membersOf(first, size - 1 - members.length, members.length, source)
    let outcomes: readonly Outcome[] = []
    try {
      for (;;) {
        // rule: leaving-worker-fills-no-batch
        if (!source.fetches() || lease.signal.aborted) break
        members.push(...(await insistToStart(first, more)))
        const leftMs = until - systemClock.now()
        if (members.length >= size - 1 || leftMs <= 0) break
        const pollMs = Math.min(MAX_POLL_MS, Math.max(MIN_POLL_MS, waitMs / POLLS))
        await sleep(systemClock, Math.min(leftMs, pollMs), lease.signal).catch(() => undefined)
      }
      assertWanted(first)
      // Its first job may have lost its lock, or the lease, while it took others.
      // rule: stopped-batch-gives-its-jobs-back
      if (lease.signal.aborted) throw new NotStarted('It was stopped before it began')
      const jobs = [first.job, ...members.map(({ job }) => job)]
      const given = lease as unknown as JobLease & string
      const work = processOf(async () => {
        outcomes = settledOf(await run(jobs, given), jobs.length)
      })
      await work(first, lease)
    } catch (reason) {
      const known = outcomes
      outcomes = [first, ...members].map((_, index) => {
        const own = known[index]
        return own?.status === 'rejected' && hasMoved(own.reason)
          ? own
          : { status: 'rejected', reason }
      })
    }
    const [own, ...others] = outcomes
    others.forEach((outcome, index) => members[index]?.settle(outcome))
    // The last trip of the first job goes behind theirs.
    await Promise.all(members.map(({ sent }) => sent))
    return settledValue(own)
  }
}

/** The next jobs that sleep in the line, in their order. */
async function membersOf(
  first: Visit,
  most: number,
  before: number,
  { lines, visits, open, run }: BatchSource,
): Promise<readonly BatchMember[]> {
  const { token = '0' } = first
  const jobs: Job[] = []
  for (const taken of await take(lines, first, most, before)) {
    const job = await open(taken, token)
    if (job !== undefined) jobs.push(job) // Else it stalls.
  }
  return jobs.map((job) => {
    let settle!: (outcome: Outcome) => void
    const outcome = new Promise<Outcome>((resolve) => {
      settle = resolve
    })
    const sent = new Promise<void>((resolve) => {
      const visit = visits.member(job, first, { outcome, sent: resolve })
      void run(job, token).finally(() => {
        visits.drop(visit) // BullMQ may have failed it without running it.
        resolve()
      })
    })
    return { job, settle, sent }
  })
}
