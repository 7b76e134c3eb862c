/**
 * Runs jobs under their leases:
 *
 *   name the resource ─ its turn? ─ no ──▶ park behind the others, no attempt used
 *                          │
 *                       lease ─ not granted ─▶ requeue with a random delay, no attempt used
 *                          │
 *                          └ granted ─▶ run the processor under one signal ─▶ hand over or release
 *
 * What the processor returns or throws is what BullMQ gets. Finished work stays finished if the
 * lease was lost in its last moment: fencing tokens are for the writes of a lost lease. With
 * `dedupe`, a stored result is returned without a lease and without running anything.
 *
 * Until the processor has been called, no error of a server costs an attempt: the step is tried
 * again in place, or the job is given back. Results are stored with the same patience.
 */
import { DelayedError, RateLimitError, UnrecoverableError, type Job } from 'bullmq'
import { messageOf } from '../../message-of.ts'
import pRetry from 'p-retry'
import { systemClock, withinMs } from '../../clock.ts'
import {
  RedlockClosedError,
  type ShutdownError,
  StepNotAwaitedError,
  ValueTooLargeError,
  WaitedTooLongError,
} from '../../errors.ts'
import type { Lease } from '../../lock/lease.ts'
import type { LeaseOptions } from '../../lock/acquire-options.ts'
import type { LockService } from '../../lock/lock-service.ts'
import type { NotGranted } from '../../lock/outcome.ts'
import { labelOf } from '../../lock/resources.ts'
import { dueAt, NO_TURN, type LineBackend, type Turn } from '../../line/line-backend.ts'
import type { Slots } from '../../slots.ts'
import { LineLimits } from '../../line/limits.ts'
import { chargeShare } from '../../line/shares.ts'
import { leaseFor } from './admission.ts'
import { batchedOf, runBatch, settledValue, type Batched } from './batch.ts'
import { Batches, type Membership, type OpenTaken } from './batch-members.ts'
import { Chain, plainEnding, type Reserved } from './chain.ts'
import { checkpointsOf, type Insist } from './checkpoints.ts'
import { SteppedLease, type JobLease } from './job-lease.ts'
import { causeOf, failureOf, isGivenBack } from './failure.ts'
import type { Channel } from '../../channel.ts'
import type { Logger } from '../../logger.ts'
import { delay, giveBack, requeue, type Requeue } from './requeue.ts'
import { resourcesOf, type ResourceOf } from '../../line/resource.ts'
import { lossOf, RunningJobs, type Running } from './running-jobs.ts'
import {
  runOf,
  sharedResultOf,
  stepsKey,
  type Dedupe,
  type ResultStore,
  type SharedResult,
} from './result-store.ts'

export interface JobRunsOptions<Data, Result, Name extends string> {
  readonly locks: LockService
  readonly leaseOptions: LeaseOptions
  readonly resource: ResourceOf<Data>
  readonly processor: (
    job: Job<Data, Result, Name>,
    lease: JobLease & string,
    ...signal: AbortSignal[]
  ) => Promise<Result>
  readonly maxWaitMs: number
  readonly burstMs: number
  readonly dedupe?: Dedupe<Data> | undefined
  readonly checkpoints?: boolean
  /** The longest sleep of a job that met an outage of the masters. */
  readonly maxUnreachableMs: number
  /** The lines of the queue; a worker that is made elsewhere has none. */
  readonly lines?: LineBackend | undefined
  /** Whether a job waits for its turn in its lines. */
  readonly ordered?: boolean
  /** How jobs run that were taken for a batch. A worker made elsewhere has batches of one. */
  readonly openTaken?: OpenTaken<Data, Result, Name>
  /** What outlives a worker; undefined without a connection to the queue's Redis. */
  readonly results?: ResultStore | undefined
  readonly channel: Channel
  readonly logger: Logger
  /** The masters have no quorum. */
  readonly onUnreachable?: () => void
  /** The lock service is closed: jobs can only be given back. */
  readonly onLocksClosed?: () => void
}

/** What was found out about a job before it started. */
interface Start {
  readonly resources: readonly string[]
  /** Its lines as the queue's Redis has them; '' for none. */
  readonly lines: string
  readonly turn: Turn
  readonly reserved: Reserved | undefined
  readonly shared: SharedResult | undefined
}

const RETRY_MS = { min: 50, max: 2_000 }
/** How long a job at its turn waits for its lease in place; two bursts where that is longer. */
const MIN_WAIT_MS = 100
/** A queue that does not take a job back in this time gets it when BullMQ finds it stalled. */
const GIVE_BACK_LIMIT_MS = 1_000

export class JobRuns<Data, Result, Name extends string> {
  readonly running: RunningJobs
  readonly #options: JobRunsOptions<Data, Result, Name>
  readonly #chain: Chain
  readonly #batched: Batched<Data, Result, Name> | undefined
  /** Undefined for batches of one. */
  readonly #batches: Batches<Data, Result, Name> | undefined
  readonly #stopping = new AbortController()
  #isLeaving = false

  constructor(options: JobRunsOptions<Data, Result, Name>) {
    this.running = new RunningJobs(options)
    this.#options = options
    this.#chain = new Chain(options)
    this.#batched = batchedOf(options.processor)
    const { lines, openTaken } = options
    const { size = 1 } = this.#batched ?? {}
    if (size > 1 && lines && openTaken) this.#batches = new Batches(lines, openTaken)
  }

  #isStopping(): boolean {
    return this.#stopping.signal.aborted
  }

  /** Those that run go on; what BullMQ still hands over is given back to the queue. */
  leave(): void {
    this.#isLeaving = true
  }

  /** Stops all that run, and what BullMQ still hands over; they are given back to the queue. */
  stop(reason: ShutdownError): void {
    this.#stopping.abort(reason)
    this.running.abortAll(reason)
  }

  /**
   * Releases what is held: leases that wait for a next job, and with `all` those of running jobs.
   */
  async close(all: boolean): Promise<void> {
    await Promise.all([this.#chain.close(), all ? this.running.release() : undefined])
  }

  /** `signal` is BullMQ's, of a worker that asks for it. */
  async run(
    job: Job<Data, Result, Name>,
    token: string | undefined,
    signal?: AbortSignal,
  ): Promise<Result> {
    const running = this.running.start(job, token, signal)
    try {
      return await this.#options.channel.within({ kind: 'job', job }, () => this.#run(running))
    } finally {
      this.running.end(running)
      this.#options.lines?.joined(job.id ?? '')
    }
  }

  async #run(running: Running<Data, Result, Name>): Promise<Result> {
    const { job } = running
    const membership = this.#batches?.claim(job.id ?? '')
    if (membership !== undefined) return this.#runMember(membership, running)
    const { resource, lines, ordered, dedupe, results } = this.#options
    const turn = lines?.takeTurn(job.id ?? '') ?? NO_TURN
    const reserved = this.#chain.claim(job.id ?? '', turn.lines)
    // A paused BullMQ worker that was waiting for a job still takes one.
    // rule: leaving-worker-starts-no-job
    if (this.#isLeaving || this.#isStopping()) return this.#giveBack(running, reserved)
    const resources =
      turn.lines === '' ? resourcesOf(resource, job, job.id) : (JSON.parse(turn.lines) as string[])
    try {
      const shared = results && dedupe && sharedResultOf(results, dedupe, job, resources)
      const stored = shared && (await this.#untilDone(running, () => shared.peek()))
      if (stored !== undefined) {
        await reserved?.lease.release()
        lines?.ends(job, plainEnding(job, turn.lines, -turn.chargedMs, turn.share))
        return stored.value as Result
      }
      const mustTakeTurn = ordered && turn.turn !== 'woken' && turn.turn !== 'yes'
      const place =
        lines !== undefined && mustTakeTurn
          ? await this.#takeTurn(lines, running, resources, turn.lines)
          : turn
      const lease =
        reserved !== undefined && !this.#isStopping()
          ? reserved.lease
          : await this.#lease(running, resources, place.slots).catch((error: unknown) => {
              this.#charge(turn, 0)
              throw error
            })
      const start = { resources, lines: place.lines, turn, reserved, shared }
      return await this.#runUnder(lease, running, start)
    } catch (error) {
      if (error instanceof NotStarted) return await this.#giveBack(running, reserved)
      // It may have failed before it took the lease: `dedupe.key` is a user's function.
      void reserved?.lease.release()
      throw error
    }
  }

  /**
   * Parks a job that may not start yet. @returns its lines, '' for none, and the slots set for it
   */
  async #takeTurn(
    lines: LineBackend,
    running: Running<Data, Result, Name>,
    resources: readonly string[],
    recorded: string,
  ): Promise<Pick<Turn, 'lines' | 'slots'>> {
    const { job, token } = running
    const answer = await this.#untilDone(running, () => lines.park(job, resources, token))
    if (typeof answer === 'object') {
      const own = recorded === '' ? JSON.stringify(resources) : recorded
      return { lines: own, slots: answer.slots }
    }
    if (answer === 'late') throw this.#waitedTooLong(resources)
    const label = labelOf(resources)
    const reason = `other jobs of \`${label}\` are ahead of it, or its limits let none start`
    throw this.#requeued(job, { status: 'in-line', resource: label, delayMs: 0, reason }, 0)
  }

  async #lease(
    running: Running<Data, Result, Name>,
    resources: readonly string[],
    slots: Slots | undefined,
  ): Promise<Lease> {
    if (this.#isStopping()) throw new NotStarted()
    const { locks, leaseOptions, ordered, lines, burstMs } = this.#options
    const isTurn = lines !== undefined && ordered === true
    const waitMs = isTurn ? Math.max(MIN_WAIT_MS, 2 * burstMs) : 0
    const { signal } = running.signal
    const outcome = await this.#untilDone(running, () =>
      leaseFor(resources, { locks, leaseOptions, waitMs, signal, slots }),
    )
    if (outcome.status !== 'granted') return this.#requeue(running, resources, outcome)
    // rule: no-job-starts-while-its-worker-stops
    if (!this.#isStopping()) return outcome.lease
    await outcome.lease.release()
    throw new NotStarted()
  }

  async #requeue(
    running: Running<Data, Result, Name>,
    resources: readonly string[],
    outcome: NotGranted,
  ): Promise<never> {
    const { job, token } = running
    const { maxWaitMs, maxUnreachableMs } = this.#options
    const mayBeLate = job.attemptsMade === 0 && dueAt(job) + maxWaitMs <= systemClock.wallNow()
    if (mayBeLate) throw this.#waitedTooLong(resources)
    const startedAt = systemClock.now()
    const why = await this.#untilDone(running, () => requeue(job, token, outcome, maxUnreachableMs))
    throw this.#requeued(job, why, systemClock.now() - startedAt)
  }

  /** Reports a job that was requeued. @returns the error by which BullMQ knows it. */
  #requeued(job: Job<Data, Result, Name>, why: Requeue, tookMs: number): DelayedError {
    if (why.status === 'unreachable') this.#options.onUnreachable?.()
    this.#options.channel.tell('job:requeued', { job, why, tookMs })
    return new DelayedError(why.reason)
  }

  #waitedTooLong(resources: readonly string[]): UnrecoverableError {
    const { message } = new WaitedTooLongError(labelOf(resources), this.#options.maxWaitMs)
    return new UnrecoverableError(message)
  }

  async #runUnder(
    lease: Lease,
    running: Running<Data, Result, Name>,
    start: Start,
  ): Promise<Result> {
    const { channel, lines } = this.#options
    const { job, token, signal } = running
    const { turn, reserved } = start
    signal.follow(lease)
    this.#tellStarted(job, lease, reserved?.endedAt)
    running.lease = lease
    const startedAt = systemClock.now()
    let isDone = false
    try {
      const result = await this.#process(lease, running, start)
      isDone = true
      return result
    } catch (error) {
      if (error instanceof RateLimitError && running.asleepUntil !== undefined) {
        await delay(job, token, Math.max(0, running.asleepUntil - systemClock.now()))
        throw new DelayedError('its resource sleeps after a rate limit')
      }
      // rule: stopped-job-uses-no-attempt
      const isStopped = isGivenBack(signal.reason) || isGivenBack(lossOf(lease))
      if (error instanceof NotStarted || !isStopped) throw error
      return await this.#giveBack(running, undefined)
    } finally {
      signal.end()
      const lost = lossOf(lease)
      const workedMs = systemClock.now() - startedAt
      if (lines === undefined) await lease.release()
      else if (isDone && lost === undefined && start.lines !== '' && !this.#isStopping()) {
        const end = this.#chain.end({
          timestamp: job.timestamp,
          lines: start.lines,
          lease,
          turn,
          usedMs: reserved?.move.usedMs ?? turn.usedMs,
          workedMs,
          isOneOfMany: this.running.size > 1,
        })
        lines.ends(job, end)
      } else {
        void lease.release()
        lines.ends(job, plainEnding(job, start.lines))
        // Also where the job is tried again: BullMQ decides that later.
        this.#charge(turn, workedMs)
      }
      this.#tellEnded(job, lease, isDone, workedMs)
      if (lost !== undefined) channel.tell('job:lease-lost', { job, lease, error: lost })
    }
  }

  async #process(
    lease: Lease,
    running: Running<Data, Result, Name>,
    { resources, shared }: Start,
  ): Promise<Result> {
    const { job, signal } = running
    const { processor, checkpoints, results, channel } = this.#options
    // Another job may have stored a result between the first read and the lease.
    const stored = shared && (await this.#untilDone(running, () => shared.claim(lease)))
    if (stored !== undefined) return stored.value as Result
    const insist: Insist = (action) => this.#insist(running, action)
    const steps =
      results && checkpoints ? checkpointsOf(results, stepsKey(job), runOf(job), insist) : undefined
    try {
      const sleep = async (delayMs: number): Promise<void> => {
        running.asleepUntil = await this.#sleep(resources, delayMs)
      }
      const jobLease = new SteppedLease(running, lease, steps, this.#options, sleep)
      const args = processor.length > 2 ? [signal.signal] : []
      const given = jobLease as unknown as JobLease & string
      const batched = this.#batched
      const members = this.#batches?.membersOf(running, resources, lease, insist)
      if (batched !== undefined) channel.tell('batch:started', { job })
      const work = async (): Promise<Result> => {
        let open: readonly string[]
        let result: Result
        try {
          result =
            batched === undefined || members === undefined
              ? await processor(job, given, ...args)
              : await runBatch(batched, job, given, members)
        } finally {
          open = await jobLease.untilStepsEnd()
        }
        // rule: open-step-fails-the-job
        if (open.length > 0) throw new StepNotAwaitedError(open)
        return result
      }
      const result = await this.running.unlessGivenUp(running, work())
      if (shared !== undefined) await insist(() => shared.keep(lease, result))
      return result
    } catch (error) {
      // The work would be done again to the same end.
      if (error instanceof ValueTooLargeError) throw new UnrecoverableError(error.message)
      throw failureOf(error, signal, running.cancelled)
    }
  }

  /** A job of a batch that is not its first: waits for what becomes of it. */
  async #runMember(
    { outcome, lease, lines, first, sent }: Membership<Result>,
    running: Running<Data, Result, Name>,
  ): Promise<Result> {
    const { job } = running
    const { lines: backend } = this.#options
    running.batch = first.signal
    running.lease = lease
    this.#tellStarted(job, lease, undefined)
    const startedAt = systemClock.now()
    let isDone = false
    try {
      const result = settledValue(await this.running.unlessGivenUp(running, outcome))
      isDone = true
      return result
    } catch (error) {
      if (isGivenBack(first.signal.reason) || isGivenBack(lossOf(lease))) {
        return await this.#giveBack(running, undefined)
      }
      throw failureOf(error, first.signal, running.cancelled)
    } finally {
      running.signal.end()
      backend?.ends(job, { ...plainEnding(job, lines), sent })
      this.#tellEnded(job, lease, isDone, systemClock.now() - startedAt)
    }
  }

  /** @param handedOverAt when the job before it on this worker had done its work. */
  #tellStarted(job: Job, lease: Lease, handedOverAt: number | undefined): void {
    const { channel } = this.#options
    if (!channel.hears('job:started')) return
    const dueAt = job.timestamp + (job.opts.delay ?? 0)
    const isFirst = job.attemptsMade === 0 && job.stalledCounter === 0
    channel.tell('job:started', {
      job,
      lease,
      attempt: job.attemptsMade + 1,
      waitedMs: isFirst ? Math.max(0, systemClock.wallNow() - dueAt) : undefined,
      handOffMs: handedOverAt === undefined ? undefined : systemClock.now() - handedOverAt,
    })
  }

  #tellEnded(job: Job, lease: Lease, isDone: boolean, tookMs: number): void {
    const { channel } = this.#options
    if (!channel.hears('job:ended')) return
    channel.tell('job:ended', { job, lease, outcome: isDone ? 'done' : 'failed', tookMs })
  }

  /** @returns when the resources wake again, on the monotonic clock. */
  async #sleep(resources: readonly string[], delayMs: number): Promise<number> {
    const { lines, ordered } = this.#options
    if (lines === undefined || !ordered) {
      throw new Error("`rateLimit` needs a LockedWorker with order 'strict': no other keeps lines")
    }
    const limits = new LineLimits(lines)
    const all = await Promise.all(resources.map((name) => limits.sleep(name, delayMs)))
    return systemClock.now() + Math.max(...all)
  }

  /** Repeats what a server refused, while the job is ours. @throws NotStarted when it must stop. */
  async #untilDone<Value>(
    running: Running,
    action: () => Promise<Value> | undefined,
  ): Promise<Value> {
    try {
      return await this.#insist(running, action)
    } catch (error) {
      if (error instanceof RedlockClosedError) this.#options.onLocksClosed?.()
      throw causeOf(error) === 'final' ? error : new NotStarted()
    }
  }

  /** Repeats what a server refused, until it is done or the job's signal aborts. */
  async #insist<Value>(
    { job, signal }: Running,
    action: () => Promise<Value> | undefined,
  ): Promise<Value> {
    try {
      return (await action()) as Value
    } catch (error) {
      if (causeOf(error) !== 'temporary') throw error
      const reason = messageOf(error)
      this.#options.channel.tell('job:server-refused', { job: job.id, reason })
    }
    return pRetry(async () => (await action()) as Value, {
      retries: Infinity,
      minTimeout: RETRY_MS.min,
      maxTimeout: RETRY_MS.max,
      randomize: true,
      signal: signal.signal,
      shouldRetry: ({ error }) => causeOf(error) === 'temporary',
    })
  }

  /** Counts work for the tenant of a job whose last trip does not. */
  #charge({ share, chargedMs }: Turn, workedMs: number): void {
    const { lines } = this.#options
    if (lines === undefined || share === '') return
    void chargeShare(lines, share, workedMs - chargedMs).catch(() => undefined)
  }

  async #giveBack(
    { job, token }: Running<Data, Result, Name>,
    reserved: Reserved | undefined,
  ): Promise<never> {
    const { channel } = this.#options
    await reserved?.lease.release()
    // A queue that does not answer finds the job stalled later: no attempt is used either way.
    await withinMs(systemClock, GIVE_BACK_LIMIT_MS, giveBack(job, token)).catch(() => undefined)
    channel.tell('job:given-back', { job })
    throw new DelayedError('requeued: it could not run here')
  }
}

/** A job that was not started has to be given back. */
class NotStarted extends Error {}
