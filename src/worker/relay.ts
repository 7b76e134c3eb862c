/**
 * How a job that has done its work gives way to the one behind it, so that nothing is waited for twice. In one turn of the event loop:
 *
 *   its lease is kept here for the next job
 *   the next job is woken ────▶ BullMQ gives it to this very worker in the trip that finishes this job
 *   that trip begins, and while it is under way the lease is handed over
 *
 * Should another worker get it after all, or the job not finish, nothing is lost but a little time: the next job finds that it is not
 * its turn, or that its resource is taken, and what is kept here is released when nobody has come for it.
 */
import { endOfTurn, type Clock, type Timer } from '../clock.ts'
import type { Lease } from '../lock/lease.ts'
import type { LeaseOptions, LockService } from '../lock/lock-service.ts'
import type { AcquireOutcome } from '../lock/outcome.ts'
import type { Lines, Sleeper } from './lines.ts'
import { encodeTicket, type Ticket } from './ticket.ts'

/** What goes on at the end of a job. */
export interface Ending {
  /**
   * BullMQ has noted that it is finished. Resolves when it may leave its line: what was kept for the next job has been fetched
   * or is released, so that whoever finds that it is its turn finds its resource free. True when the next job, which has started
   * here, has taken it out of the line.
   */
  finished(): Promise<boolean>
}

/** What was passed to a job by the one before it. */
export interface Passed {
  readonly outcome: Promise<AcquireOutcome>
  /** The one before it, where that is noted as finished: it is this one's turn, and nobody needs to be asked. */
  readonly from: Ticket | undefined
  /** To be told whether this one has taken the one before it out of the line; else that one leaves by itself. */
  readonly tookItOut: (done: boolean | Promise<boolean>) => void
  /** When the one before it had done its work, on the monotonic clock. */
  readonly passedAt: number
}

interface Kept extends Pick<Passed, 'outcome' | 'passedAt'> {
  readonly resource: string
  readonly from: Ticket
  finished: boolean
  /** The job for which it is kept was given to this worker. */
  fetched: boolean
  timer: Timer | undefined
  /** Resolves when nothing is kept any more, as {@link Ending.finished} does. */
  readonly over: Promise<boolean>
  readonly end: Passed['tookItOut']
}

/** BullMQ notes the end of a job within a few milliseconds, or will not do it. */
const UNFINISHED_MS = 100
/** BullMQ gives the next job to this worker in the same breath as it notes the end of the one before it, or to another worker. */
const UNFETCHED_MS = 1
/** What was given to this worker starts when its loop has finished what it is at, one trip to the queue at most. */
const UNSTARTED_MS = 500

export class Relay {
  readonly #locks: LockService
  readonly #leaseOptions: Omit<LeaseOptions, 'slots'>
  readonly #clock: Clock
  readonly #kept = new Map<string, Kept>()

  constructor(locks: LockService, { slots, ...leaseOptions }: LeaseOptions, clock: Clock) {
    this.#locks = locks
    this.#leaseOptions = leaseOptions
    this.#clock = clock
  }

  /** Passes the lease on `resource` and the turn of a job that has done its work. */
  pass(from: Ticket, resource: string, lease: Lease, lines: Lines, following: Sleeper): Ending {
    const key = encodeTicket(following.ticket)
    const older = this.#kept.get(key)
    if (older !== undefined) void this.#drop(key, older)
    const kept = this.#keep(from, resource, lease)
    this.#kept.set(key, kept)
    this.#dropAfter(UNFINISHED_MS, key, kept)
    void lines.wake(following)
    const finished = (): Promise<boolean> => {
      kept.finished = true
      if (!kept.fetched) this.#dropAfter(UNFETCHED_MS, key, kept)
      return kept.over
    }
    return { finished }
  }

  /** BullMQ has given a job to this worker, and is going to start it. */
  fetched(ticket: Ticket): void {
    const key = encodeTicket(ticket)
    const kept = this.#kept.get(key)
    if (kept === undefined) return
    kept.fetched = true
    this.#dropAfter(UNSTARTED_MS, key, kept)
  }

  /** What is kept for a job, for whoever runs it now. A job that touches other resources too starts from the beginning. */
  claim(ticket: Ticket, resources: readonly string[]): Passed | undefined {
    const key = encodeTicket(ticket)
    const kept = this.#kept.get(key)
    if (kept === undefined) return undefined
    if (resources.length !== 1 || resources[0] !== kept.resource) {
      void this.#drop(key, kept)
      return undefined
    }
    this.#kept.delete(key)
    kept.timer?.cancel()
    const { outcome, passedAt, finished, end: tookItOut } = kept
    return { outcome, passedAt, from: finished ? kept.from : undefined, tookItOut }
  }

  /** Releases the lease that is kept for a job, if it is. */
  async drop(ticket: Ticket): Promise<void> {
    const key = encodeTicket(ticket)
    const kept = this.#kept.get(key)
    if (kept !== undefined) await this.#drop(key, kept)
  }

  /** Releases whatever nobody has come for. */
  async close(): Promise<void> {
    await Promise.all([...this.#kept].map(([key, kept]) => this.#drop(key, kept)))
  }

  #keep(from: Ticket, resource: string, lease: Lease): Kept {
    let end: Kept['end'] = () => undefined
    const over = new Promise<boolean>((resolve) => {
      end = resolve
    })
    return {
      from,
      resource,
      // Not before the write that finishes the job.
      outcome: endOfTurn().then(() => this.#handOver(lease)),
      finished: false,
      fetched: false,
      passedAt: this.#clock.now(),
      timer: undefined,
      over,
      end,
    }
  }

  async #handOver(lease: Lease): Promise<AcquireOutcome> {
    try {
      if (this.#locks.handOver !== undefined && lease.remainingMs() > 0) {
        return await this.#locks.handOver(lease, this.#leaseOptions)
      }
    } catch {
      // It was lost in this very moment, or the service is closing: there is nothing to hand over.
    }
    await lease.release()
    return { status: 'split', resource: lease.resource, answers: [] }
  }

  #dropAfter(delayMs: number, key: string, kept: Kept): void {
    if (this.#kept.get(key) !== kept) return
    kept.timer?.cancel()
    kept.timer = this.#clock.after(delayMs, () => void this.#drop(key, kept))
  }

  async #drop(key: string, kept: Kept): Promise<void> {
    if (this.#kept.get(key) !== kept) return
    this.#kept.delete(key)
    kept.timer?.cancel()
    const outcome = await kept.outcome
    if (outcome.status === 'granted') await outcome.lease.release()
    kept.end(false)
  }
}
