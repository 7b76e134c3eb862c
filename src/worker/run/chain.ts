/**
 * How a line goes on in the worker that has just finished its job, without a question to the lock
 * masters. The trip that finishes a job wakes the next job of its line and fetches it. The lease is
 * handed over to that job, with its own fencing token. Where it cannot be, it is released, and the
 * next job acquires anew, right behind the release.
 *
 * A line may use a burst of work in front of jobs of other lines. When the burst is spent, its next
 * job goes behind the jobs that wait, and what was used too much counts against the next burst.
 * A line that pauses starts anew. With tenants, all work counts for the tenant instead.
 */
import { AsyncResource } from 'node:async_hooks'
import type { Job } from 'bullmq'
import { Deadlines, systemClock, type Deadline, type Expiring } from '../../clock.ts'
import type { Lease } from '../../lock/lease.ts'
import type { LeaseOptions } from '../../lock/acquire-options.ts'
import type { LockService } from '../../lock/lock-service.ts'
import type { Ending, Move, Turn } from '../../line/line-backend.ts'
import { shareFrom } from '../../line/shares.ts'
import { isWithin } from './admission.ts'
import { LoopLoad } from './loop-load.ts'

/** What the job before left for the next one of its line. */
export interface Reserved {
  /** Its own. */
  readonly lease: Lease
  /** Of the job before it. */
  readonly move: Move
  /** When the job before it had done its work, on the monotonic clock. */
  readonly endedAt: number
}

export interface ChainOptions {
  readonly locks: LockService
  readonly leaseOptions: LeaseOptions
  /** Milliseconds of work that a line may do in front of others. */
  readonly burstMs: number
}

/** A job that has done its work. */
export interface Done {
  readonly timestamp: number
  readonly lines: string
  readonly lease: Lease
  readonly turn: Turn
  /** What its line had used of its burst before it. */
  readonly usedMs: number
  readonly workedMs: number
  /** Other jobs run here too. */
  readonly isOneOfMany: boolean
}

/** An empty job counts as this much work: else empty jobs would never end a burst. */
const MIN_JOB_MS = 1
/** A lease is given up if BullMQ does not finish its job in this time. */
const FINISH_LIMIT_MS = 1_000
/** A fetched job starts when BullMQ's loop has done what it is at. */
const START_LIMIT_MS = 500
/** Of jobs that are shorter than this, a process runs no more than it has time for. */
const SHORT_JOB_MS = 5
/** With longer jobs, it has no time left when its event loop waits less than half of the time. */
const BUSY = 0.5

export class Chain {
  readonly #options: ChainOptions
  readonly #load = new LoopLoad()
  readonly #finishing = new Deadlines(systemClock)
  readonly #starting = new Deadlines(systemClock)
  readonly #reserved = new Map<string, Link>()
  /** Jobs whose last trip is under way. */
  #ending = 0

  constructor({ locks, leaseOptions, burstMs }: ChainOptions) {
    const { slots: _, ...rest } = leaseOptions
    this.#options = { locks, leaseOptions: Object.freeze(rest), burstMs }
  }

  /** What was kept for a job, for the worker that runs it now. */
  claim(jobId: string, lines: string): Reserved | undefined {
    const reserved = this.#reserved.get(jobId)
    if (reserved === undefined) return undefined
    this.#reserved.delete(jobId)
    reserved.deadline?.leave(reserved)
    if (reserved.move.lines === lines) return reserved
    void reserved.lease.release()
    return undefined
  }

  /**
   * The end of a job that has done its work, whose lease goes to the next job of its lines if the
   * same worker is given that job, and is released if not.
   */
  end(done: Done): Ending {
    const { timestamp, lines, lease, turn, workedMs } = done
    const { share, chargedMs } = turn
    const burstMs = this.#options.burstMs * (shareFrom(share)?.weight ?? 1)
    const workMs = Math.max(MIN_JOB_MS, workedMs)
    const allMs = done.usedMs + workMs
    const isSpent = allMs >= burstMs
    const carriedMs = share === '' ? Math.min(allMs - burstMs, burstMs) : 0
    const isOneOfMany = done.isOneOfMany || this.#ending > 0
    const move: Move = {
      timestamp,
      lines,
      next: isSpent ? 'back' : 'front',
      usedMs: isSpent ? carriedMs : allMs,
      share,
      chargeMs: workMs - chargedMs,
      offers: isSpent && isOneOfMany && this.#isBusy(workedMs),
    }
    const link = new Link(this, lease, move, systemClock.now())
    link.deadline = this.#finishing.in(FINISH_LIMIT_MS, link)
    this.#ending++
    return link
  }

  /** A process with time left runs a line as fast as any other, and a change of process costs. */
  #isBusy(workedMs: number): boolean {
    return workedMs < SHORT_JOB_MS || this.#load.get() >= BUSY
  }

  /** Releases what nothing has come for. */
  async close(): Promise<void> {
    const reserved = [...this.#reserved.values()]
    this.#reserved.clear()
    await Promise.all(
      reserved.map((link) => {
        link.deadline?.leave(link)
        return link.lease.release()
      }),
    )
  }

  /** @internal */
  ended(): void {
    this.#ending--
  }

  /** @internal */
  reserve(jobId: string, link: Link): void {
    link.deadline = this.#starting.in(START_LIMIT_MS, link)
    this.#reserved.set(jobId, link)
  }

  /** @internal */
  drop(jobId: string): void {
    this.#reserved.delete(jobId)
  }

  /** @internal The lease of the next job; undefined where that job has to acquire anew. */
  handOver(lease: Lease): Lease | undefined {
    const { locks, leaseOptions } = this.#options
    try {
      return lease.remainingMs() > 0 ? locks.handOver?.(lease, leaseOptions) : undefined
    } catch {
      return undefined // The lease was lost in this moment, or the service is closing.
    }
  }
}

/**
 * From the end of a job to the start of the next one of its line. What it does belongs to the trace
 * of the job that ends, wherever BullMQ calls it.
 */
class Link extends AsyncResource implements Ending, Expiring, Reserved {
  readonly move: Move
  readonly endedAt: number
  /** Of the job that ends, and then of the next one. */
  lease: Lease
  deadline: Deadline | undefined
  readonly #chain: Chain
  #isOver = false
  #reservedFor: string | undefined

  constructor(chain: Chain, lease: Lease, move: Move, endedAt: number) {
    super('redlock.job')
    this.move = move
    this.endedAt = endedAt
    this.#chain = chain
    this.lease = lease
  }

  /** Behind the bytes of the trip, and while it is under way. */
  sent(): void {
    if (this.move.offers) this.returned()
  }

  returned(jobId = '', turn?: Turn): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#chain.ended()
    this.deadline?.leave(this)
    // Jobs of other queues may wait for it.
    // rule: spent-burst-releases-its-lease
    const isInBurst = this.move.next === 'front'
    const isNext = jobId !== '' && turn?.turn === 'woken' && turn.lines === this.move.lines
    this.runInAsyncScope(() => {
      const next =
        isInBurst && isNext && mayHandOver(this.lease, turn)
          ? this.#chain.handOver(this.lease)
          : undefined
      if (next === undefined) {
        void this.lease.release()
        return
      }
      this.lease = next
      this.#reservedFor = jobId
      this.#chain.reserve(jobId, this)
    })
  }

  expire(): void {
    if (this.#reservedFor === undefined) this.returned()
    else {
      this.#chain.drop(this.#reservedFor)
      void this.lease.release()
    }
  }
}

const nothing = (): void => undefined

/** The end of a job whose lease is released already. */
export function plainEnding(
  { timestamp }: Pick<Job, 'timestamp'>,
  lines: string,
  chargeMs = 0,
  share = '',
): Ending {
  const move: Move = { timestamp, lines, next: 'back', usedMs: 0, share, chargeMs, offers: false }
  return { move, sent: nothing, returned: nothing }
}

/**
 * The slots may have been lowered while the job ran: then the lease of a higher slot is not used
 * again.
 */
function mayHandOver(lease: Lease, { lines, slots }: Turn): boolean {
  if (slots === undefined) return true
  return isWithin(lease.resources, JSON.parse(lines) as string[], slots)
}
