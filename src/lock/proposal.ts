/**
 * The fencing token a client proposes: a hybrid logical clock in microseconds, at least the wall
 * clock and past every counter this client has seen. It keeps tokens increasing when a master lost
 * its counters. Exact in a double until the year 2255.
 *
 * A counter seen far ahead of our clock does not drag our proposals along without bound: masters
 * refuse proposals that are `maxClockSkewMs` ahead of their clock, so one resource whose counter
 * was raised by a client with a wrong clock would keep this client from every other resource.
 */
import type { Clock } from '../clock.ts'

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
    const proposal = Math.max(wallUs, Math.min(this.#seen + 1, wallUs + this.#maxAheadUs))
    this.observe(proposal)
    return proposal
  }

  observe(counter: number): void {
    if (counter > this.#seen) this.#seen = counter
  }
}
