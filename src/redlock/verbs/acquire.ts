/** Asks every master to grant resources to a token that it has not seen before. */
import type { Clock } from '../../clock.ts'
import { luaConstant } from '../../lua.ts'
import { callOf, type Call, USUAL, type Procedure } from '../wire/batch.ts'
import type { CallResult, Master } from '../wire/master.ts'
import type { LockFleet } from '../fleet/fleet.ts'
import type { Verb } from '../quorum/poll.ts'
import type { Attempt } from './attempt.ts'
import { inspectProcedure } from './inspect.ts'
import { isCount, readVote, type AcquireVote } from './votes.ts'

/**
 * A grant's counter is so far past every earlier one that the lease can be passed on this often
 * under its own fencing token.
 */
export const TOKENS_PER_GRANT: number = Number(
  luaConstant('redlock/lua/record', 'TOKENS_PER_GRANT'),
)

/** `lua/acquire.lua`, and `lua/acquire-usual.lua` for a usual call. */
export const acquireProcedure: Procedure = {
  name: 'acquire',
  short: {
    letter: 'A',
    parameters: 6,
    usualReply: ([, , , proposal]) => Number(proposal),
  },
}

export class Acquire implements Verb<AcquireVote> {
  readonly question = 'acquire'
  readonly timeoutMs: number
  /** The largest counter that a master granted, and how many granted exactly it. */
  counter = 0
  atCounter = 0
  readonly #fleet: LockFleet
  readonly #call: Call
  readonly #granted: AcquireVote
  readonly #resources: readonly string[]
  /** Suspended masters, which were asked nothing but the time. */
  #lookedAt: Set<Master> | undefined

  constructor(fleet: LockFleet, attempt: Attempt, proposal: number) {
    const { resources, token, leaseMs, waitMs, waiter } = attempt
    // An answer that comes after the lease would be over is none.
    this.timeoutMs = Math.min(fleet.settings.masterTimeoutMs, leaseMs)
    this.#fleet = fleet
    this.#resources = resources
    const args = [resources, token, leaseMs, String(proposal), waitMs, waiter]
    this.#call = callOf(acquireProcedure, args)
    this.#granted = { kind: 'granted', counter: proposal }
  }

  ask(master: Master): Call {
    if (this.#fleet.clocks.suspendedMs(master) === 0) return this.#call
    this.#lookedAt = (this.#lookedAt ?? new Set()).add(master)
    // Its clock is known by its replies: else it would stay suspended when its clock is right.
    // rule: suspended-master-is-asked-the-time
    return callOf(inspectProcedure, [this.#resources[0] ?? ''])
  }

  read(master: Master, result: CallResult): AcquireVote {
    // This very reply may have shown that the master's clock jumped.
    const leastMs = this.#lookedAt?.has(master) === true ? 1 : 0
    const waitMs = Math.max(leastMs, this.#fleet.clocks.suspendedMs(master))
    // rule: suspended-master-grants-nothing
    if (waitMs > 0) return { kind: 'suspended', waitMs }
    const vote =
      result.ok && result.reply === USUAL
        ? this.#granted
        : readAcquireVote(result, this.#fleet.settings.maxLeaseMs)
    if (vote.kind === 'granted') {
      if (vote.counter > this.counter) this.atCounter = 0
      this.counter = Math.max(this.counter, vote.counter)
      if (vote.counter === this.counter) this.atCounter++
    }
    return vote
  }

  isFor({ kind }: AcquireVote): boolean {
    return kind === 'granted'
  }
}

/** No lease lasts longer than `maxLeaseMs`, whatever a master says whose clock was set back. */
function readAcquireVote(result: CallResult, maxLeaseMs: number): AcquireVote {
  if (result.ok && isCount(result.reply)) return { kind: 'granted', counter: result.reply }
  return readVote<AcquireVote>(result, (word, [first, second, third]) => {
    if (word === 'taken' && typeof first === 'string' && isCount(second)) {
      const taken = { kind: 'taken', holder: first, ttlMs: Math.min(second, maxLeaseMs) } as const
      return isCount(third) ? { ...taken, at: third } : taken
    }
    if (word === 'quarantined' && isCount(first)) return { kind: 'quarantined', waitMs: first }
    if (word === 'skewed' && isCount(first)) return { kind: 'skewed', aheadMs: first }
    return word === 'abandoned' ? { kind: 'abandoned' } : undefined
  })
}

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
