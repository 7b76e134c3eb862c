/**
 * How a line goes on in the worker that has just finished its job, without a question to the lock
 * masters. The trip that finishes a job wakes the next job of its line and fetches it; meanwhile
 * the lease is handed over to that job, with its own fencing token.
 *
 * A line may use a burst of work in front of jobs of other lines. When the burst is spent, its next
 * job goes behind the jobs that wait, and what was used too much counts against the next burst.
 * A line that pauses starts anew. With tenants, all work counts for the tenant instead.
 */
import { AsyncResource } from 'node:async_hooks'
import type { Job } from 'bullmq'
import type { Clock, Timer } from '../../clock.ts'
import type { Lease } from '../../lock/lease.ts'
import type { LeaseOptions, LockService } from '../../lock/lock-service.ts'
import type { AcquireOutcome } from '../../lock/outcome.ts'
import type { Burst, Ending, NextJob, Turn } from '../bullmq/line-backend.ts'
import { shareFrom } from '../line/shares.ts'
import { isWithin } from './admission.ts'

/** What the job before left for the next one of its line. */
export interface Kept {
  readonly outcome: Promise<AcquireOutcome>
  readonly burst: Burst
  /** When the job before it had done its work, on the monotonic clock. */
  readonly endedAt: number
}

interface Waiting extends Kept {
  readonly lines: string
  readonly timer: Timer
}

export interface ChainOptions {
  readonly locks: LockService
  readonly leaseOptions: LeaseOptions
  readonly clock: Clock
  /** Milliseconds of work that a line may do in front of others. */
  readonly burstMs: number
}

/** An empty job counts as this much work: else empty jobs would never end a burst. */
const MIN_JOB_MS = 1
/** A lease is given up if BullMQ does not finish its job in this time. */
const FINISH_LIMIT_MS = 1_000
/** A fetched job starts when BullMQ's loop has done what it is at. */
const START_LIMIT_MS = 500

export class Chain {
  readonly #options: ChainOptions
  readonly #kept = new Map<string, Waiting>()

  constructor(options: ChainOptions) {
    this.#options = options
  }

  /** What was kept for a job, for the worker that runs it now. */
  claim(jobId: string, lines: string): Kept | undefined {
    const kept = this.#kept.get(jobId)
    if (kept === undefined) return undefined
    this.#kept.delete(jobId)
    kept.timer.cancel()
    if (kept.lines === lines) return kept
    void release(kept.outcome)
    return undefined
  }

  /**
   * The end of a job that has done its work, whose lease goes to the next job of its lines if the
   * same worker is given that job, and is released if not.
   * @param burst what the line had used before this job.
   */
  end(
    job: Pick<Job, 'timestamp'>,
    lines: string,
    lease: Lease,
    {
      burst,
      workedMs,
      isBusy,
      isFollowed,
      share,
      chargedMs,
    }: Pick<Turn, 'share' | 'chargedMs'> & {
      readonly burst: Burst
      readonly workedMs: number
      /** Other jobs run here too. */
      readonly isBusy: boolean
      /** Jobs waited behind it when it started. */
      readonly isFollowed: boolean
    },
  ): Ending {
    const { clock, locks } = this.#options
    const { weight } = shareFrom(share) ?? NO_SHARE
    const burstMs = this.#options.burstMs * weight
    const workMs = Math.max(MIN_JOB_MS, workedMs)
    const usedMs = burst.usedMs + workMs
    const isSpent = usedMs >= burstMs
    const count = burst.count + (isSpent ? 1 : 0)
    const carriedMs = share === '' ? Math.min(usedMs - burstMs, burstMs) : 0
    const next = { usedMs: isSpent ? carriedMs : usedMs, count }
    const offers = isSpent && isBusy && isOffered(count)
    const endedAt = clock.now()
    // What follows belongs to this job's trace, wherever BullMQ calls it.
    const trace = new AsyncResource('redlock.job')
    const inJob = <Value>(run: () => Value): Value => trace.runInAsyncScope(run)
    let outcome: Promise<AcquireOutcome> | undefined
    let isOver = false
    const over = (fetched: NextJob | undefined): void => {
      if (isOver) return
      isOver = true
      late.cancel()
      if (
        fetched?.turn === 'woken' &&
        fetched.lines === lines &&
        mayHandOver(lease, fetched) &&
        locks.handOver !== undefined
      ) {
        outcome ??= inJob(() => this.#handOver(lease))
        this.#keep(fetched.jobId, { outcome, burst: next, endedAt, lines })
      } else {
        void inJob(() => (outcome === undefined ? lease.release() : release(outcome)))
      }
    }
    const late = clock.after(FINISH_LIMIT_MS, () => {
      over(undefined)
    })
    return {
      timestamp: job.timestamp,
      lines,
      next: isSpent ? 'back' : 'front',
      burst: next,
      share,
      chargeMs: workMs - chargedMs,
      offers,
      sent: () => {
        // Behind the bytes of the trip, and while it is under way.
        if (!isSpent && isFollowed && !isOver && locks.handOver !== undefined)
          outcome = inJob(() => this.#handOver(lease))
        else if (offers) over(undefined)
      },
      returned: over,
    }
  }

  /** Releases what nothing has come for. */
  async close(): Promise<void> {
    const kept = [...this.#kept.values()]
    this.#kept.clear()
    await Promise.all(
      kept.map(({ timer, outcome }) => {
        timer.cancel()
        return release(outcome)
      }),
    )
  }

  #keep(jobId: string, kept: Kept & { readonly lines: string }): void {
    const timer = this.#options.clock.after(START_LIMIT_MS, () => {
      this.#kept.delete(jobId)
      void release(kept.outcome)
    })
    this.#kept.set(jobId, { ...kept, timer })
  }

  async #handOver(lease: Lease): Promise<AcquireOutcome> {
    const { locks, leaseOptions } = this.#options
    const { slots: _, ...options } = leaseOptions
    try {
      if (locks.handOver !== undefined && lease.remainingMs() > 0) {
        return await locks.handOver(lease, options)
      }
    } catch {
      // The lease was lost in this moment, or the service is closing: the next job asks itself.
    }
    await lease.release()
    return { status: 'split', resource: lease.resource, answers: [] }
  }
}

/**
 * The next job of a busy line is offered to other workers after its first four bursts, then after
 * 8, 16 and every 32: soon after jobs came to one process, and seldom later, since a change of
 * process costs trips.
 */
function isOffered(count: number): boolean {
  return count <= 4 || count === 8 || count === 16 || count % 32 === 0
}

const NO_BURST: Burst = { usedMs: 0, count: 0 }
const NO_SHARE = { weight: 1 }

/** The end of a job whose lease is released already. */
export function plainEnding(
  { timestamp }: Pick<Job, 'timestamp'>,
  lines: string,
  chargeMs = 0,
  share = '',
): Ending {
  const nothing = (): undefined => undefined
  return {
    ...{ timestamp, lines, next: 'back', burst: NO_BURST, offers: false },
    ...{ sent: nothing, returned: nothing, share, chargeMs },
  }
}

/**
 * The slots may have been lowered while the job ran: then the lease of a higher slot is not used
 * again.
 */
function mayHandOver({ resource }: Lease, { lines, slots }: NextJob): boolean {
  if (slots === undefined) return true
  const [name = ''] = JSON.parse(lines) as readonly string[]
  return isWithin(resource, name, slots)
}

async function release(outcome: Promise<AcquireOutcome>): Promise<void> {
  const kept = await outcome
  if (kept.status === 'granted') await kept.lease.release()
}
