/**
 * Runs batches. The jobs behind the first one come from the line to this worker, run as any job,
 * and wait for what becomes of them.
 */
import type { Job } from 'bullmq'
import type { Channel } from '../../channel.ts'
import { sleep, systemClock } from '../../clock.ts'
import type { LineBackend } from '../../line/line-backend.ts'
import { take, type TakenJob } from '../../line/turns.ts'
import { settledOf, settledValue, type Batched } from './batch.ts'
import { hasMoved } from './failure.ts'
import type { JobLease } from './job-lease.ts'
import { processOf, type Process } from './job-runs.ts'
import { insist } from './admission.ts'
import type { Visit, Visits } from './visits.ts'

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
  channel: Channel,
  source: BatchSource,
): Process {
  return async (first, lease) => {
    channel.tell('batch:started', { job: first.job })
    if (size === 1 || first.resources.length > 1) return alone(first, lease)
    first.first = first
    const members: BatchMember[] = []
    const until = systemClock.now() + waitMs
    const gather = async (): Promise<void> => {
      for (;;) {
        // rule: leaving-worker-fills-no-batch
        if (!source.fetches()) return
        const most = size - 1 - members.length
        const more = (): Promise<readonly BatchMember[]> =>
          membersOf(first, most, members.length, source)
        if (most > 0) members.push(...(await insist(first, channel, more)))
        const leftMs = until - systemClock.now()
        if (members.length >= size - 1 || leftMs <= 0 || lease.signal.aborted) return
        const pollMs = Math.min(MAX_POLL_MS, Math.max(MIN_POLL_MS, waitMs / POLLS))
        await sleep(systemClock, Math.min(leftMs, pollMs), lease.signal)
      }
    }
    let outcomes: readonly Outcome[] = []
    try {
      await gather()
      lease.signal.throwIfAborted()
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
