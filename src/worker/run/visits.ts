/**
 * The jobs that this worker was given, and how a line goes on in it without a question to the lock
 * masters. The trip that finishes a job wakes the next job of its line and fetches it. The lease is
 * handed over to that job, with its own fencing token. Where it cannot be, it is released, and the
 * next job acquires anew, right behind the release.
 *
 * A line may use a burst of work in front of jobs of other lines. When the burst is spent, its next
 * job goes behind the jobs that wait, and what was used too much counts against the next burst. If
 * none waits, and no client waits for the lease, that job takes over the lease all the same.
 * A line that pauses starts anew. With tenants, all work counts for the tenant instead.
 */
import { AsyncResource } from 'node:async_hooks'
import type { Job } from 'bullmq'
import { Deadlines, leave, systemClock, withinMs } from '../../clock.ts'
import type { Lease } from '../../lock/lease.ts'
import type { LeaseOptions } from '../../lock/lease-options.ts'
import type { LockService } from '../../lock/lock-service.ts'
import { LineVisit, type LineVisits, type Move } from '../../line/visit.ts'
import { isWithin } from './admission.ts'
import { JobSignal } from './job-lease.ts'
import type { SharedResult } from './results.ts'
import { RunningJobs, type JobRunsOptions } from './running-jobs.ts'

/** BullMQ ends a job that has done its work, and starts one that it was given, in this time. */
const LIMIT_MS = 1_000
/** An empty job counts as this much work: else empty jobs would never end a burst. */
const MIN_JOB_MS = 1

/** The jobs of a line under one lease, which is passed on. */
interface Chain {
  /** Of the job that runs. */
  lease: Lease
  /** No client waited for it at this time, on the monotonic clock. */
  unwantedAt: number
}

/** BullMQ ends it, or starts it, before it expires: else its lease is released. */
export class Visit extends LineVisit {
  /** BullMQ started the job at this time, on the monotonic clock. */
  startedAt: number | undefined
  /** Its processor has moved it: it has no lock of BullMQ any more. */
  isMoved = false
  stop!: JobSignal
  /** Of its worker, once it has started. */
  options!: JobRunsOptions
  /** Of the job before it in its line, or its own; in a batch that of the first job. */
  lease: Lease | undefined
  /** Of its line, where the job before it left it the lease. */
  chain: Chain | undefined
  /** The job before it asks whether it may leave it the lease. */
  handed: Promise<unknown> | undefined
  /** It has spent the burst of its line, and asks whether clients wait for its lease. */
  answer: Promise<void> | undefined
  /** The job before it, which left it the lease, had done its work at this time. */
  leftAt: number | undefined
  /** What it shares with other jobs, with `dedupe`. */
  shared: SharedResult | undefined
  /** The first job of its batch, which may be itself. */
  first: Visit | undefined
  /** What becomes of it in its batch, where it is not the first job. */
  outcome: Promise<PromiseSettledResult<unknown>> | undefined
  /** It was cancelled in a batch. The other jobs continue. */
  cancelled: Error | undefined
  /** Its lease was found lost at this time, on the monotonic clock. */
  lostAt: number | undefined
  /** Its resource sleeps until then, on the monotonic clock: it has called `lease.rateLimit()`. */
  asleepUntil: number | undefined
  /** It had done its work at this time. */
  endedAt = 0
  /** It waits for its lease longer than others may. */
  isPatient = false
  /** It waits for an answer of the queue's server since then, on the monotonic clock. */
  waitsSince: number | undefined

  /** It does nothing until the queue's server answers. */
  awaits<Answer>(trip: Promise<Answer>): Promise<Answer> {
    this.waitsSince = systemClock.now()
    return trip.finally(() => {
      this.waitsSince = undefined
    })
  }

  /** The lease is no longer its own. */
  letGo(): Lease | undefined {
    const { lease } = this
    leave(this)
    this.lease = undefined
    return lease
  }

  expire(): void {
    void this.letGo()?.release()
  }
}

export class Visits extends RunningJobs implements LineVisits {
  readonly byId: Map<string, Visit> = new Map()
  readonly #locks: LockService
  readonly #leaseOptions: LeaseOptions
  readonly #burstMs: number
  readonly #deadlines = new Deadlines(systemClock)
  /** Those that are over are found when waiters are asked for. */
  #chains = new Set<Chain>()
  #askedAt = 0

  /** @param burstMs milliseconds of work that a line may do in front of others. */
  constructor(locks: LockService, { slots: _, ...leaseOptions }: LeaseOptions, burstMs: number) {
    super()
    this.#locks = locks
    this.#leaseOptions = Object.freeze(leaseOptions)
    this.#burstMs = burstMs
  }

  fetched(jobId: string): Visit {
    const visit = new Visit()
    const earlier = this.byId.get(jobId)
    // Its second run would hide from BullMQ that the lock of the first is lost.
    // rule: job-that-is-given-again-has-lost-its-lock
    if (earlier?.startedAt !== undefined && !earlier.isMoved) this.locksLost([jobId])
    this.byId.set(jobId, visit)
    return visit
  }

  async moving<Answer>(jobId: string, trip: Promise<Answer>): Promise<Answer> {
    const visit = this.byId.get(jobId)
    if (visit === undefined) return trip
    const { isMoved } = visit
    // It may be given to this worker again before the answer is heard.
    visit.isMoved = true
    let answer: Answer | false = false
    try {
      return (answer = await trip)
    } finally {
      // One that has no children to wait for stays.
      // rule: moved-job-needs-no-lock
      visit.isMoved = isMoved || answer !== false
      // It was fetched by hand, and never runs here.
      if (visit.isMoved && visit.startedAt === undefined) this.drop(visit, jobId)
    }
  }

  waiting(jobId: string): Visit | undefined {
    const visit = this.byId.get(jobId)
    return visit?.startedAt === undefined ? visit : undefined
  }

  drop(visit: Visit, jobId: string = visit.job.id ?? ''): void {
    // BullMQ may have ended it without its processor, for a failed child.
    // rule: job-that-is-over-keeps-none-waiting
    visit.join?.done()
    if (this.byId.get(jobId) === visit) this.byId.delete(jobId)
  }

  ending(job: Pick<Job, 'id'>): Visit | undefined {
    const { id = '' } = job
    const visit = this.byId.get(id)
    if (visit?.job === job) {
      this.byId.delete(id)
      return visit
    }
    // BullMQ may end a job that it has not started.
    if (visit !== undefined && visit.startedAt === undefined) this.drop(visit, id)
    return undefined
  }

  /** BullMQ starts a job. @param signal BullMQ's, of a worker that asks for it. */
  start(job: Job, token: string | undefined, signal: AbortSignal | undefined): Visit {
    const { id = '' } = job
    const visit = this.waiting(id) ?? this.fetched(id)
    visit.job = job
    visit.token = token
    visit.options = this.options
    visit.startedAt = systemClock.now()
    visit.hasRun ||= job.attemptsMade > 0 || job.stalledCounter > 0
    leave(visit)
    visit.stop = visit.first?.stop ?? new JobSignal(signal)
    this.running.add(visit)
    return visit
  }

  /** A job was taken for the batch of another one. */
  member(job: Job, first: Visit, own: Pick<Visit, 'outcome' | 'sent'>): Visit {
    const { lease, lines } = first
    const { id = '' } = job
    const visit = this.waiting(id) ?? this.fetched(id)
    const move = { usedMs: 0, back: true, runs: undefined, share: undefined, chargeMs: undefined }
    return Object.assign(visit, { job, first, lease, lines, move, ...own })
  }

  /**
   * A job has done its work: the trip that ends it moves its lines, and may pass on its lease.
   * @param isTraced whether a listener follows the lease.
   */
  done(visit: Visit, workedMs: number, isTraced: boolean): void {
    visit.endedAt = systemClock.now()
    visit.move = moveBehind(visit, workedMs, this.#burstMs, this.byId.size)
    // rule: spent-burst-asks-for-waiters
    if (visit.move.back && !this.#isUnwanted(visit)) visit.answer = this.#follow(visit)
    const settle = this.#passOn.bind(this, visit)
    visit.settle = isTraced ? AsyncResource.bind(settle) : settle
    this.#deadlines.in(LIMIT_MS, visit)
  }

  /** A job has ended here. BullMQ's trip asks only for one of which something is to be said. */
  end(visit: Visit): void {
    this.running.delete(visit)
    if (visit.move === undefined) this.drop(visit)
  }

  /** Releases the leases that wait for a next job, and with `all` those of running jobs. */
  async close(all = false): Promise<void> {
    const waiting = [...this.byId.values()].filter(({ startedAt }) => startedAt === undefined)
    const running = all ? [...this.running] : []
    await Promise.all([
      ...waiting.map(async (visit) => {
        await visit.handed
        await visit.letGo()?.release()
      }),
      ...running.map(({ lease }) => lease?.release()),
    ])
  }

  #passOn(visit: Visit, fetched: LineVisit | undefined): void {
    const next = fetched as Visit | undefined
    if (next?.turn !== 'woken' || next.lines !== visit.lines) {
      void visit.letGo()?.release()
      return
    }
    // Jobs of other queues may wait for it.
    // rule: spent-burst-releases-its-lease
    if (visit.move?.back !== true || this.#isUnwanted(visit)) this.#handOn(visit, next, true)
    else {
      const { answer = Promise.resolve() } = visit
      next.handed = withinMs(systemClock, this.#askMs, answer).then(() => {
        this.#handOn(visit, next, this.#isUnwanted(visit))
      })
    }
  }

  /** The lease of the next job. It has to acquire one where it is not given this one. */
  #handOn(visit: Visit, next: Visit, keeps: boolean): void {
    const lease = visit.letGo()
    if (lease === undefined) return
    let passed: Lease | undefined
    try {
      const isPassed = keeps && lease.remainingMs() > 0 && mayPass(lease, next)
      passed = isPassed ? this.#locks.handOver?.(lease, this.#leaseOptions) : undefined
    } catch {
      // The lease was lost in this moment, or the service is closing.
    }
    if (passed === undefined) {
      void lease.release()
      return
    }
    next.lease = passed
    next.leftAt = visit.endedAt
    next.usedMs = visit.move?.usedMs ?? 0
    next.chain = visit.chain
    // The answer about waiters may come after its start.
    // rule: running-job-keeps-its-lease
    if (next.startedAt === undefined) this.#deadlines.in(LIMIT_MS, next)
    // The answer is there when a burst of short jobs ends.
    void this.#follow(next, systemClock.now() - this.#askedAt < this.#askMs)
  }

  get #askMs(): number {
    return Math.min(this.#burstMs / 2, LIMIT_MS)
  }

  #isUnwanted({ endedAt, chain }: Visit): boolean {
    // rule: answer-about-waiters-ages
    return endedAt - (chain?.unwantedAt ?? -Infinity) < this.#burstMs
  }

  /**
   * Asks for all leases together whether clients wait for them.
   * @param isRecent they were asked for a moment ago: this one counts when they are asked for next.
   */
  async #follow(visit: Visit, isRecent = false): Promise<void> {
    const { lease } = visit
    if (lease === undefined) return
    visit.chain = Object.assign(visit.chain ?? { unwantedAt: -Infinity }, { lease })
    this.#chains.add(visit.chain)
    if (isRecent) return
    const at = (this.#askedAt = systemClock.now())
    const chains = [...this.#chains].filter(({ lease }) => lease.remainingMs() > 0)
    this.#chains = new Set(chains)
    const resources = chains.flatMap(({ lease }) => lease.resources)
    // Where none answers, some may wait.
    const waited = await this.#locks.waitedFor?.(resources).catch(() => undefined)
    for (const chain of chains) {
      const isWanted = waited?.some((name) => chain.lease.resources.includes(name)) ?? true
      chain.unwantedAt = isWanted ? -Infinity : at
    }
  }
}

/** The slots may have been lowered while the job ran: no lease of a higher slot is used again. */
function mayPass(lease: Lease, { slots, lines }: Visit): boolean {
  return slots === undefined || isWithin(lease.resources, JSON.parse(lines) as string[], slots)
}

/** @param runs how many jobs run here. */
function moveBehind(
  { usedMs, share, chargedMs }: Pick<Visit, 'usedMs' | 'share' | 'chargedMs'>,
  workedMs: number,
  usualBurstMs: number,
  runs: number,
): Move {
  const weight = share === '' ? 1 : Number(share.split(' ', 1)[0])
  const burstMs = usualBurstMs * weight
  const workMs = Math.max(MIN_JOB_MS, workedMs)
  const allMs = usedMs + workMs
  const isSpent = allMs >= burstMs
  const carriedMs = share === '' ? Math.min(allMs - burstMs, burstMs) : 0
  return {
    usedMs: isSpent ? carriedMs : allMs,
    back: isSpent || undefined,
    runs: isSpent ? runs : undefined,
    share: share || undefined,
    chargeMs: share === '' ? undefined : workMs - chargedMs,
  }
}
