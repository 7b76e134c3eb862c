/** What the queue's Redis answers a worker: a job and its turn, or when there will be one. */
import type { RedisQueueBackend } from 'bullmq'
import { atEndOfTurn, systemClock } from '../clock.ts'
import type { Slots } from '../slots.ts'
import type { Join, LineVisit, LineVisits, Told } from './visit.ts'

export interface RepliesSettings {
  /** Of a worker. */
  readonly visits?: LineVisits | undefined
  /** Called when the queue's Redis has no job to give, and none sleeps in line. */
  readonly onDrained?: (() => void) | undefined
}

export class Replies {
  /** How far the clock here is ahead of that of the queue's Redis. */
  aheadMs = 0
  readonly #bullmq: Pick<RedisQueueBackend, 'finishedErrors'>
  readonly #settings: RepliesSettings
  /** Of the jobs that have to take their places. */
  #lastJoin: Promise<unknown> = Promise.resolve()
  /** It was told that the queue is drained, and no job was given since. */
  #toldDrained = false

  constructor(bullmq: Pick<RedisQueueBackend, 'finishedErrors'>, settings: RepliesSettings) {
    this.#bullmq = bullmq
    this.#settings = settings
  }

  /**
   * The job that a reply brings, if any, with what the reply says about its turn.
   * @param asksNone another job was not asked for.
   */
  heard(reply: unknown, asksNone = false): LineVisit | undefined {
    // Nothing is left, not even a delayed job.
    if (reply === 0 && !asksNone) this.#tellDrained(0)
    if (!Array.isArray(reply)) return undefined
    if (!Array.isArray(reply[0])) {
      // BullMQ is told when there will be a job: it counts on the clock here.
      const [, , , delayUntil = 0, serverMs, asleep] = reply as number[]
      if (serverMs !== undefined) this.aheadMs = systemClock.wallNow() - serverMs
      // rule: waits-by-its-own-clock
      if (delayUntil > 0) reply[3] = delayUntil + this.aheadMs
      this.#tellDrained(asleep)
      return undefined
    }
    // In the order of replies: BullMQ opens the job later.
    this.#toldDrained = false
    const [, jobId, , , told] = reply as readonly unknown[]
    const [turn, lines = '', burst, slots, share = '', charged] = told as readonly string[]
    const visit = this.#settings.visits?.fetched(String(jobId), {
      turn: turn as Told['turn'],
      lines,
      usedMs: Number(burst),
      slots: slots ? (JSON.parse(slots) as Slots) : undefined,
      share,
      chargedMs: Number(charged),
    })
    if (visit !== undefined && (turn === 'none' || turn === 'no')) visit.join = this.#nextJoin()
    return visit
  }

  /** @throws what BullMQ says where its script refuses a job. */
  refuse(reply: unknown, jobId: string, command: string): void {
    if (typeof reply === 'number' && reply < 0) {
      throw this.#bullmq.finishedErrors({ code: reply, jobId, command, state: 'active' })
    }
  }

  /** @param asleep 1 where jobs sleep in lines. */
  #tellDrained(asleep: number | undefined): void {
    // rule: worker-is-drained-once-when-no-job-sleeps
    if (this.#toldDrained || asleep !== 0) return
    this.#toldDrained = true
    if (this.#settings.onDrained) atEndOfTurn(this.#settings.onDrained)
  }

  #nextJoin(): Join {
    let done = (): void => undefined
    const earlier = this.#lastJoin
    this.#lastJoin = new Promise<void>((resolve) => {
      done = resolve
    })
    return { earlier, done }
  }
}
