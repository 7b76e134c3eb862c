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
 */
import { DelayedError, RateLimitError, type Job } from 'bullmq'
import { systemClock, withinMs } from '../../clock.ts'
import type { ShutdownError } from '../../errors.ts'
import { JobLockLostError, StepNotAwaitedError } from '../../job-errors.ts'
import { RedlockClosedError } from '../../lock-errors.ts'
import type { Lease } from '../../lock/lease.ts'
import { dueAt, park, rest } from '../../line/turns.ts'
import { GIVE_BACK_LIMIT_MS } from '../../line/visit.ts'
import { admit, insistToStart, NotStarted, takeTurn } from './admission.ts'
import { assertWanted, failureOf, hasMoved, isGivenBack, settledValue } from './failure.ts'
import { lossOf, SteppedLease } from './job-lease.ts'
import { giveBack } from './requeue.ts'
import { resourcesOf } from '../../names.ts'
import type { JobRunsOptions } from './running-jobs.ts'
import type { Visit } from './visits.ts'

const GIVEN_BACK_MS = 100

/** BullMQ's, protected in its types. */
interface TrackedLocks {
  readonly trackedJobs?: ReadonlyMap<string, { readonly token: string }>
  untrackJob: (jobId: string) => void
}

export class JobRuns {
  /** Those that run go on; what BullMQ still hands over is given back to the queue. */
  isLeaving = false
  readonly options: JobRunsOptions
  #isStopping = false

  constructor(options: JobRunsOptions) {
    this.options = options
    options.visits.options = options
  }

  /** BullMQ renews a lock until any run of its job ends. Here a later run keeps its lock. */
  keepLocks(lockManager: object): void {
    const locks = lockManager as TrackedLocks
    const untrack = locks.untrackJob.bind(locks)
    locks.untrackJob = (jobId) => {
      const tracked = locks.trackedJobs?.get(jobId)
      for (const { job, token } of tracked === undefined ? [] : this.options.visits.running) {
        // rule: later-run-keeps-its-lock
        if (token === tracked?.token && job.id === jobId) return
      }
      untrack(jobId)
    }
  }

  /** Stops all that run, and what BullMQ still hands over; they are given back to the queue. */
  stop(reason: ShutdownError): void {
    // Not `isLeaving`, with which BullMQ's loop is given nothing at once. It would ask without a
    // pause until the worker is closed, and a forced close gives leases up first.
    this.#isStopping = true
    this.options.visits.abortAll(reason)
  }

  /** What BullMQ calls for a job. `signal` is its own, of a worker that asks for it. */
  readonly run = async (
    job: Job,
    token: string | undefined,
    signal?: AbortSignal,
  ): Promise<unknown> => {
    const { visits, channel } = this.options
    const visit = visits.start(job, token, signal)
    try {
      if (!channel.hears('within')) return await this.#run(visit)
      return await channel.within({ kind: 'job', job }, () => this.#run(visit))
    } finally {
      visits.end(visit)
    }
  }

  async #run(visit: Visit): Promise<unknown> {
    const { resource, lines, ordered, shared } = this.options
    const { job, turn } = visit
    const isMember = visit.outcome !== undefined
    if (visit.handed !== undefined) await visit.handed
    try {
      if (!isMember) {
        // A paused BullMQ worker that was waiting for a job still takes one.
        this.#assertMayStart()
        const named = visit.lines !== '' && (JSON.parse(visit.lines) as string[])
        visit.resources = named || resourcesOf(resource, job, job.id)
        const stored = await shared?.peek(visit)
        if (stored !== undefined) {
          await this.#leaveUnused(visit)
          await this.#addNext(visit)
          return stored.value
        }
        const isTurn = !ordered || turn === 'woken' || turn === 'yes'
        if (!isTurn && lines) await takeTurn(lines, visit)
        visit.lease ??= await admit(visit)
      }
      // rule: started-job-adds-the-next-of-its-scheduler
      if (visit.addNext !== undefined) await this.#addNext(visit)
      if (!isMember) {
        this.#assertMayStart()
        // Nothing has looked at its signal while it waited for answers.
        // rule: cancelled-job-does-not-start
        if (visit.stop.isAborted) assertWanted(visit)
      } else if (visit.lease === undefined) {
        // Its first job was given up while it took others.
        // rule: batch-that-is-over-starts-no-job
        throw new NotStarted('Its batch is over')
      }
    } catch (error) {
      // That of a batch is its first job's.
      if (!isMember) await this.#leaveUnused(visit)
      if (error instanceof DelayedError) throw error
      if (!(error instanceof NotStarted)) {
        // rule: job-that-ends-adds-the-next-of-its-scheduler
        await this.#addNext(visit)
        throw error
      }
      if (error.cause instanceof RedlockClosedError) this.options.onLocksClosed?.()
      return this.#giveBack(visit)
    }
    return this.#runUnder(visit.lease as Lease, visit)
  }

  /**
   * For a job that was fetched and is not run here: BullMQ fails it, or a caller runs it. What the
   * server refuses is not tried again: nothing here could stop that.
   */
  async addNextOf(jobId: string): Promise<void> {
    const visit = this.options.visits.waiting(jobId)
    await visit?.addNext?.()
    if (visit !== undefined) visit.addNext = undefined
  }

  /** Whether a job that was fetched by hand goes back: others of its line are ahead of it. */
  async parks(job: Job, token: string): Promise<boolean> {
    const { lines, ordered, visits } = this.options
    const visit = visits.waiting(job.id ?? '')
    // rule: job-fetched-by-hand-comes-in-turn
    if (!ordered || lines === undefined || visit?.turn !== 'no') return false
    const resources = JSON.parse(visit.lines) as string[]
    const answer = await park(lines, Object.assign(visit, { job, token, resources }))
    if (answer === 'parked') visits.drop(visit)
    else if (answer !== 'late') Object.assign(visit, { turn: 'yes', ...answer })
    return answer === 'parked'
  }

  /** Without it a scheduler ends. */
  async #addNext(visit: Visit): Promise<void> {
    const { addNext } = visit
    if (addNext === undefined) return
    await visit.awaits(insistToStart(visit, addNext))
    visit.addNext = undefined
  }

  #assertMayStart(): void {
    // rule: leaving-worker-starts-no-job
    if (this.isLeaving || this.#isStopping) throw new NotStarted()
  }

  /** Gives back what was kept for a job that does not run: a lease, and the time of its tenant. */
  async #leaveUnused(visit: Visit): Promise<void> {
    this.#charge(visit, 0)
    await visit.letGo()?.release()
  }

  async #runUnder(lease: Lease, visit: Visit): Promise<unknown> {
    const { process, lines, visits, channel } = this.options
    const { job, stop } = visit
    if (visit.outcome === undefined) stop.follow(lease)
    if (channel.hears('job:started')) this.#tellStarted(visit, lease)
    visit.hasRun = true
    const startedAt = systemClock.now()
    let isDone = false
    try {
      const result = await new Promise((resolve, reject) => {
        visit.giveUp = reject
        const own = visit.outcome?.then(settledValue)
        const work = own ?? process(visit, new SteppedLease(visit, lease))
        work.then(resolve, reject)
      })
      isDone = true
      return result
    } catch (error) {
      // rule: moved-job-stays-where-it-is
      if (hasMoved(error)) throw error
      const failure = failureOf(error, visit)
      if (lines && visit.asleepUntil !== undefined && failure instanceof RateLimitError) {
        await visit.awaits(rest(lines, visit, Math.max(0, visit.asleepUntil - systemClock.now())))
        throw new DelayedError('its resource sleeps after a rate limit')
      }
      // rule: stopped-job-uses-no-attempt
      const isStopped = isGivenBack(stop.reason) || isGivenBack(lossOf(lease))
      if (!isStopped && !(error instanceof NotStarted)) throw failure
      return await this.#giveBack(visit)
    } finally {
      const lost = lossOf(lease)
      const tookMs = systemClock.now() - startedAt
      if (visit.outcome === undefined) {
        stop.end()
        const isHeld = isDone && lost === undefined && visit.lines !== ''
        // The last trip of an earlier run moves no line: it would keep the later one waiting.
        const isLatest = visits.byId.get(job.id ?? '') === visit
        const mayPass = isHeld && !this.#isStopping && isLatest
        if (lines === undefined) await visit.letGo()?.release()
        else if (mayPass) visits.done(visit, tookMs, channel.hears('lease:ended'))
        else {
          void visit.letGo()?.release()
          // Also where the job is tried again: BullMQ decides that later.
          this.#charge(visit, tookMs)
        }
        if (lost !== undefined) channel.tell('job:lease-lost', { job, lease, error: lost })
      }
      const outcome = isDone ? 'done' : 'failed'
      if (channel.hears('job:ended')) channel.tell('job:ended', { job, lease, outcome, tookMs })
    }
  }

  #tellStarted({ job, leftAt, hasRun, from }: Visit, lease: Lease): void {
    this.options.channel.tell('job:started', {
      job,
      lease,
      attempt: job.attemptsMade + 1,
      waitedMs: hasRun ? undefined : Math.max(0, systemClock.wallNow() - (from || dueAt(job))),
      handOffMs: leftAt === undefined ? undefined : systemClock.now() - leftAt,
    })
  }

  /** Counts work for the tenant of a job whose last trip does not. */
  #charge({ share, chargedMs }: Visit, workedMs: number): void {
    const { lines } = this.options
    if (lines === undefined || share === '' || workedMs === chargedMs) return
    const work = { share, workedMs: workedMs - chargedMs }
    void lines.run('line/lua/charge', work).catch(() => undefined)
  }

  async #giveBack({ job, token }: Visit): Promise<never> {
    await withinMs(systemClock, GIVE_BACK_LIMIT_MS, giveBack(job, token, GIVEN_BACK_MS)).catch(
      () => undefined,
    )
    this.options.channel.tell('job:given-back', { job })
    throw new DelayedError('requeued: it could not run here')
  }
}

/** Runs a job under its lease. Shared results, checkpoints and batches wrap it. */
export type Process = (visit: Visit, lease: SteppedLease) => Promise<unknown>

/**
 * A processor as it runs a job. One that asks for the signal is given it. A step that still runs
 * when its processor ends holds the lease, and fails the job.
 */
export function processOf(processor: (...args: never) => unknown): Process {
  const run = processor as (...args: unknown[]) => unknown
  const asksForSignal = processor.length > 2
  return async (visit, lease) => {
    const { job, stop } = visit
    // Its process may have stood still since it was fetched. The job may have been done elsewhere.
    const hasExpired = systemClock.now() > visit.lockedUntil || lossOf(visit.lease) !== undefined
    const isLost = stop.isAborted && stop.reason instanceof JobLockLostError
    // rule: job-that-may-run-elsewhere-does-not-start
    if (hasExpired || isLost) throw new NotStarted('It may run elsewhere')
    const { openSteps } = lease
    let result: unknown
    let open: readonly string[] | undefined
    try {
      result = await (asksForSignal ? run(job, lease, stop.signal) : run(job, lease))
    } finally {
      if (openSteps.size > 0) open = [...openSteps.values()]
      // rule: open-step-holds-the-lease
      while (openSteps.size > 0) await Promise.allSettled(openSteps.keys())
    }
    // rule: open-step-fails-the-job
    if (open !== undefined) throw new StepNotAwaitedError(open)
    return result
  }
}
