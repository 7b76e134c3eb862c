/**
 * Runs batches. The jobs behind the first one come from the line to this worker, run as any job,
 * and wait for what becomes of them.
 */
import type { Job } from 'bullmq'
import type { Channel } from '../../channel.ts'
import { sleep, systemClock } from '../../clock.ts'
import type { LineBackend, TakenJob } from '../../line/line-backend.ts'
import { settledOf, settledValue, type Batched } from './batch.ts'
import { insist } from './insist.ts'
import type { JobLease, Process, SteppedLease } from './job-lease.ts'
import type { Visit } from './visit.ts'
import type { Visits } from './visits.ts'

/** BullMQ opens jobs that were taken for a batch. */
export type OpenTaken = (found: readonly TakenJob[], token: string) => Promise<readonly OpenedJob[]>

/** A job that was taken for a batch. */
export interface OpenedJob {
  readonly job: Job
  /** BullMQ starts it as any job. Resolves when it has ended, well or not. */
  readonly run: () => Promise<void>
}

type Outcome = PromiseSettledResult<unknown>

/** Polls for more jobs within `waitMs`. */
const POLLS = 10
const MIN_POLL_MS = 5

/** Where a batch gets its jobs from. */
export interface BatchSource {
  readonly lines: LineBackend
  readonly visits: Visits
  readonly openTaken: OpenTaken
}

/**
 * Runs jobs in batches.
 * @param alone runs a job of several resources, and any job of a worker without lines.
 */
export function batching(
  alone: Process,
  batched: Batched,
  channel: Channel,
  source?: BatchSource,
): Process {
  const batches = source && batched.size > 1 ? new Batches(batched, channel, source) : undefined
  return (first, lease) => {
    channel.tell('batch:started', { job: first.job })
    const isOfOne = batches === undefined || first.resources.length > 1
    return isOfOne ? alone(first, lease) : batches.run(first, lease)
  }
}

class Batches {
  readonly #batched: Batched
  readonly #channel: Channel
  readonly #source: BatchSource

  constructor(batched: Batched, channel: Channel, source: BatchSource) {
    this.#batched = batched
    this.#channel = channel
    this.#source = source
  }

  /** @returns what became of its first job. */
  async run(first: Visit, lease: SteppedLease): Promise<unknown> {
    first.first = first
    const members: BatchMember[] = []
    const jobsOf = (): readonly Job[] => [first.job, ...members.map(({ job }) => job)]
    let outcomes: readonly Outcome[]
    try {
      await this.#gather(first, members)
      lease.signal.throwIfAborted()
      const jobs = jobsOf()
      const given = lease as unknown as JobLease & string
      outcomes = settledOf(await this.#batched.run(jobs, given), jobs.length)
    } catch (reason) {
      outcomes = jobsOf().map(() => ({ status: 'rejected', reason }))
    }
    const [own, ...others] = outcomes
    others.forEach((outcome, index) => members[index]?.settle(outcome))
    // Its own last trip goes behind theirs.
    await Promise.all(members.map(({ sent }) => sent))
    return settledValue(own)
  }

  async #gather(first: Visit, members: BatchMember[]): Promise<void> {
    const { size, waitMs } = this.#batched
    const { signal } = first.stop
    const until = systemClock.now() + waitMs
    for (;;) {
      const most = size - 1 - members.length
      if (most > 0) members.push(...(await this.#take(first, most, members.length)))
      const leftMs = until - systemClock.now()
      if (members.length + 1 >= size || leftMs <= 0 || signal.aborted) return
      const pollMs = Math.max(MIN_POLL_MS, waitMs / POLLS)
      await sleep(systemClock, Math.min(leftMs, pollMs), signal)
    }
  }

  /** The next jobs that sleep in the line, in their order. */
  async #take(first: Visit, most: number, before: number): Promise<readonly BatchMember[]> {
    const { job, resources } = first
    const { lines, openTaken } = this.#source
    const [resource = ''] = resources
    const token = job.token ?? '0'
    const opened = await insist(first, this.#channel, async () =>
      openTaken(await lines.take(job, { resource, token, most, before }), token),
    )
    return opened.map((each) => this.#start(first, each))
  }

  #start(first: Visit, { job, run }: OpenedJob): BatchMember {
    const { visits } = this.#source
    let settle!: (outcome: Outcome) => void
    const outcome = new Promise<Outcome>((resolve) => {
      settle = resolve
    })
    const sent = new Promise<void>((resolve) => {
      const visit = visits.member(job, first, { outcome, sent: resolve })
      void run().finally(() => {
        visits.drop(visit) // BullMQ may have failed it without running it.
        resolve()
      })
    })
    return { job, settle, sent }
  }
}

/** A job of a batch that is not its first. */
interface BatchMember {
  readonly job: Job
  readonly settle: (outcome: Outcome) => void
  /** Its last trip is under way. */
  readonly sent: Promise<void>
}
