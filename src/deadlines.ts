/**
 * Deadlines of many calls on few timers. Calls that begin within a millisecond and allow the same
 * time share one timer, so a deadline passes up to a millisecond late and never early.
 */
import type { Clock, Timer } from './clock.ts'

export interface Expiring {
  /** Must do nothing for what was settled before. */
  expire(timeoutMs: number): void
}

const SHARED_MS = 1

export class Deadlines {
  readonly #clock: Clock
  #latest: Deadline | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** `member` expires unless it leaves the deadline before. */
  in(timeoutMs: number, member: Expiring): Deadline {
    const now = this.#clock.now()
    if (this.#latest?.admits(timeoutMs, now) !== true) {
      this.#latest = new Deadline(this.#clock, timeoutMs, now)
    }
    this.#latest.join(member)
    return this.#latest
  }
}

/** Calls that expire together. */
export class Deadline {
  readonly #timeoutMs: number
  readonly #admitsUntil: number
  readonly #members: Expiring[] = []
  readonly #timer: Timer
  #open = 0
  #isOver = false

  constructor(clock: Clock, timeoutMs: number, now: number) {
    this.#timeoutMs = timeoutMs
    this.#admitsUntil = now + SHARED_MS
    // The last one to join has its full time.
    this.#timer = clock.after(timeoutMs + SHARED_MS, () => {
      this.#isOver = true
      for (const member of this.#members) member.expire(timeoutMs)
    })
  }

  admits(timeoutMs: number, now: number): boolean {
    return !this.#isOver && timeoutMs === this.#timeoutMs && now <= this.#admitsUntil
  }

  join(member: Expiring): void {
    this.#open++
    this.#members.push(member)
  }

  /** One of its members is settled. */
  leave(): void {
    if (--this.#open > 0) return
    this.#isOver = true
    this.#timer.cancel()
  }
}
