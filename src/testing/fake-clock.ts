import { ownCallback, type Clock, type Timer } from '../clock.ts'
import { numberOption } from '../options.ts'

interface Due {
  readonly at: number
  readonly run: () => void
}

/**
 * A clock that stands still until a test moves it.
 * @example
 * ```ts
 * const clock = new FakeClock({ startsAt: Date.UTC(2026, 0, 1) })
 * clock.after(1_000, () => console.log('a second is over'))
 * await clock.advance(1_000)
 * ```
 */
export class FakeClock implements Clock {
  /** Wall time at the beginning. */
  readonly #startedAt: number
  readonly #random: () => number
  #now = 0
  #due: Due[] = []
  #moved: Promise<void> = Promise.resolve()

  /**
   * @param options.startsAt what `wallNow` is at first, milliseconds since 1970. Default: now
   * @param options.random where jitter comes from, in [0, 1). Default: `Math.random`
   */
  constructor({
    startsAt = Date.now(),
    random = Math.random,
  }: { readonly startsAt?: number; readonly random?: () => number } = {}) {
    this.#startedAt = startsAt
    this.#random = random
  }

  now(): number {
    return this.#now
  }

  wallNow(): number {
    return this.#startedAt + this.#now
  }

  after(delayMs: number, run: () => void): Timer {
    const due = { at: this.#now + Math.max(0, delayMs), run }
    const place = this.#due.findIndex(({ at }) => at > due.at)
    this.#due.splice(place === -1 ? this.#due.length : place, 0, due)
    return {
      cancel: () => {
        this.#due = this.#due.filter((other) => other !== due)
      },
    }
  }

  random(): number {
    return this.#random()
  }

  /**
   * Moves on by `ms`, when the calls before have ended. Timers run at their times, in order, and
   * what each sets off settles before the next.
   * @throws TypeError for an `ms` that is no number, or below 0; what a timer throws.
   */
  async advance(ms: number): Promise<void> {
    numberOption('ms', ms, 0, Number.MAX_SAFE_INTEGER)
    const moved = this.#moved.then(() => this.#move(ms))
    this.#moved = moved.catch(() => undefined)
    return moved
  }

  async #move(ms: number): Promise<void> {
    const until = this.#now + ms
    // Promise chains, however deep, are done when the event loop comes round.
    await ownCallback()
    for (let due = this.#due[0]; due !== undefined && due.at <= until; due = this.#due[0]) {
      this.#due.shift()
      this.#now = due.at
      due.run()
      await ownCallback()
    }
    this.#now = until
  }
}
