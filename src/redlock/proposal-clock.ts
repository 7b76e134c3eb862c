import type { Clock } from '../clock.ts'

/**
 * The fencing token that a client proposes: a hybrid logical clock in microseconds, at least the
 * wall clock and past every counter this client has seen. It keeps tokens increasing when a master
 * lost its counters. Exact in a double until the year 2255.
 *
 * A counter far ahead of our clock comes from a clock that is or was wrong: another client's, or
 * our own before it was set right. It is not followed, because masters refuse proposals that are
 * `maxClockSkewMs` ahead of their clock: one such counter would keep this client from every other
 * resource.
 */
export class ProposalClock {
  readonly #clock: Clock
  readonly #maxAheadUs: number
  #seen = 0

  constructor(clock: Clock, maxClockSkewMs: number) {
    this.#clock = clock
    this.#maxAheadUs = (maxClockSkewMs * 1000) / 2
  }

  next(): number {
    const wallUs = Math.floor(this.#clock.wallNow() * 1000)
    if (this.#seen > wallUs + this.#maxAheadUs) this.#seen = 0
    this.#seen = Math.max(wallUs, this.#seen + 1)
    return this.#seen
  }

  observe(counter: number): void {
    const isAhead = counter > this.#clock.wallNow() * 1000 + this.#maxAheadUs
    if (!isAhead && counter > this.#seen) this.#seen = counter
  }
}
