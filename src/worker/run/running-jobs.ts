/** The jobs that run in this worker, and what stops one of them from outside. */
import type { Channel } from '../../channel.ts'
import { sleep, systemClock } from '../../clock.ts'
import { JobCancelledError, JobLockLostError } from '../../job-errors.ts'
import { cancelRequests } from '../../line/cancel.ts'
import type { LineBackend } from '../../line/line-backend.ts'
import type { ResourceOf } from '../../line/placement.ts'
import type { LeaseOptions } from '../../lock/lease-options.ts'
import type { LockService } from '../../lock/lock-service.ts'
import type { Logger } from '../../logger.ts'
import { asError } from './failure.ts'
import { lossOf } from './job-lease.ts'
import type { Process } from './job-runs.ts'
import type { SharedResults } from './results.ts'
import type { Visit, Visits } from './visits.ts'

const IDLE_POLL_MS = 10

/** What the jobs of a worker need. */
export interface JobRunsOptions {
  readonly locks: LockService
  /** The lease of each job. */
  readonly leaseOptions: LeaseOptions
  /**
   * No job of its line is ahead of it. The lease may be on its way out, or a job of another queue
   * has it: it is waited for this long, in the order of arrival. 0 for no waiting.
   */
  readonly waitMs: number
  readonly maxWaitMs: number
  /** The lines of the queue; a worker that is made elsewhere has none. */
  readonly lines?: LineBackend | undefined
  readonly channel: Channel
  readonly resource: ResourceOf
  readonly process: Process
  readonly visits: Visits
  /** Whether a job waits for its turn in its lines. */
  readonly ordered?: boolean
  readonly shared?: SharedResults | undefined
  readonly logger: Logger
  /** The lock service is closed: jobs can only be given back. */
  readonly onLocksClosed?: () => void
}

export class RunningJobs {
  /** Told once the worker is there. */
  options!: JobRunsOptions
  /** A job is here twice when another run began while the first has no lock. */
  readonly running: Set<Visit> = new Set()

  /** Whether none runs any more within the time; or only none of those that wait for a lease. */
  async idleWithin(limitMs: number, which?: 'waiting'): Promise<boolean> {
    const until = systemClock.now() + limitMs
    const isLeft = ({ giveUp }: Visit): boolean => which === undefined || giveUp === undefined
    while ([...this.running].some(isLeft)) {
      if (systemClock.now() >= until) return false
      await sleep(systemClock, IDLE_POLL_MS)
    }
    return true
  }

  /** As `locksLost`. BullMQ has renewed its other locks for so long. */
  locksRenewed(lostIds: readonly string[], askedAt: number, lockMs: number): string[] {
    for (const visit of this.running) {
      if ((visit.startedAt ?? Infinity) <= askedAt) visit.lockedUntil = askedAt + lockMs
    }
    return this.locksLost(lostIds, askedAt)
  }

  /**
   * BullMQ's locks on these jobs are lost, as the server said when it was asked then.
   * @returns those that still run. The end of another tells whether it was in time.
   */
  locksLost(jobIds: readonly string[], askedAt: number = Infinity): string[] {
    return jobIds.filter((id) => {
      // rule: lost-lock-is-of-an-earlier-run
      const runs = this.#runsOf(id).filter(
        ({ startedAt = 0, isMoved }) => startedAt <= askedAt && !isMoved,
      )
      for (const visit of runs) this.#stop(visit)
      return runs.length > 0
    })
  }

  /**
   * A job whose lock has run out may run elsewhere. One fails without its processor where its lease
   * was lost `graceMs` ago: its line goes on.
   */
  stopLost(graceMs: number): void {
    const now = systemClock.now()
    for (const visit of this.running) {
      if (now > visit.lockedUntil) this.#stop(visit)
      const lost = lossOf(visit.lease)
      if (lost === undefined) continue
      visit.lostAt ??= now
      // rule: lost-job-does-not-stand-in-its-line
      if (now - visit.lostAt > graceMs) visit.giveUp?.(lost)
    }
  }

  /** Stops jobs that `queue.cancel()` was called for, in this process or another one. */
  async pollCancels(lines: LineBackend): Promise<void> {
    const ids = [...this.running].flatMap(({ job: { id } }) => (id === undefined ? [] : [id]))
    if (ids.length === 0) return
    for (const [jobId, token, reason] of await cancelRequests(lines, ids)) {
      const error = new JobCancelledError(jobId, reason)
      for (const visit of this.#runsOf(jobId)) {
        // rule: cancel-of-one-run
        if (visit.token === token) cancel(visit, error)
      }
    }
  }

  /** As BullMQ's own: false for a job that does not run here. */
  cancel(jobId: string, reason: string | undefined): boolean {
    const runs = this.#runsOf(jobId)
    for (const visit of runs) cancel(visit, reason)
    return runs.length > 0
  }

  abortAll(reason: unknown): void {
    for (const { stop } of this.running) stop.abort(reason)
  }

  /** As `abortAll`, of those that wait for a lease. A job of a batch has that of its first job. */
  abortWaiting(reason: unknown): void {
    for (const { stop, giveUp, outcome } of this.running) {
      if (giveUp === undefined && outcome === undefined) stop.abort(reason)
    }
  }

  #runsOf(jobId: string): readonly Visit[] {
    return [...this.running].filter(({ job }) => job.id === jobId)
  }

  #stop({ job, lease, stop, options }: Visit): void {
    if (stop.isAborted) return
    if (lease !== undefined) options.channel.tell('job:lock-lost', { job, lease })
    const error = new JobLockLostError(job.id ?? '')
    // rule: lost-lock-stops-its-job
    stop.abort(error)
  }
}

function cancel(visit: Visit, reason: unknown): void {
  // rule: cancel-does-not-stop-its-batch
  if (visit.first === undefined) visit.stop.abort(reason)
  else visit.cancelled = asError(reason)
}
