import { randomInt, randomUUID } from 'node:crypto'
import type { Clock } from '../clock.ts'

/** Random ones, hexadecimal. */
const TOKEN_DIGITS = 20

/**
 * What is new in every attempt of a client: the token that names it, and the fencing token that it
 * proposes. That is a hybrid logical clock in microseconds, at least the wall clock and past every
 * counter this client has seen. It keeps tokens increasing when a master lost its counters. Exact
 * in a double until the year 2255.
 *
 * A counter far ahead of our clock comes from a clock that is or was wrong: another client's, or
 * our own before it was set right. It is not followed, because masters refuse proposals that are
 * `maxClockSkewMs` ahead of their clock: one such counter would keep this client from every other
 * resource.
 */
export class Proposals {
  readonly #clock: Clock
  readonly #maxAheadUs: number
  readonly #tokenEnd: string
  /** Short enough for the beginning of a token to tell two of one client apart. */
  #serial = randomInt(36 ** 5, 36 ** 6 / 2)
  #seen = 0

  /** @param owner who holds a lease, as people see it in its token. */
  constructor(clock: Clock, maxClockSkewMs: number, owner: string) {
    this.#tokenEnd = `${randomUUID().replaceAll('-', '').slice(0, TOKEN_DIGITS)}@${owner}`
    this.#clock = clock
    this.#maxAheadUs = (maxClockSkewMs * 1000) / 2
  }

  /** No other attempt has it, of this client or of another. */
  token(): string {
    // rule: fresh-token-per-attempt
    return `${(this.#serial++).toString(36)}${this.#tokenEnd}`
  }

  fence(): number {
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
