/**
 * One attempt to acquire, from the call to the lease that it becomes: a vote, and where the granted
 * counters differ a second one that fixes the fencing token.
 *
 *   acquire everywhere ─ quorum granted ─▶ t = max(counter) ─ a quorum reported t ─▶ complete
 *          │                                      │
 *          │                                      └─ else confirm: raise to t where the key is
 *          │                                         mine; a quorum now at exactly t ─▶ complete
 *          └─ no quorum, confirm failed, or trust ran out meanwhile ─▶ release on *every* master
 *
 * Completing with the counter at exactly t on a quorum is what makes tokens increase: any later
 * quorum shares a master with this one, and that master grants more than t.
 */
import { randomBytes, randomInt } from 'node:crypto'
import { instant, type Clock, type Instant } from '../clock.ts'
import { RedlockClosedError } from '../lock-errors.ts'
import { HeldLease, type Grant, type Renewed } from '../lock/held-lease.ts'
import type { LeaseTerms } from '../lock/lease-options.ts'
import type { AcquireOutcome, NotGranted } from '../lock/outcome.ts'
import { canBeRenewed, remainingMs, trustFrom, turnMs, type Trust } from '../lock/trust.ts'
import { explain, holderBy, tooLate } from './explain.ts'
import { extendLease } from './extend.ts'
import type { LockFleet } from './fleet/fleet.ts'
import { highest, Poll } from './poll.ts'
import { releaseEverywhere, releaseLater } from './release.ts'
import { TOKENS_PER_GRANT, type Vote } from './verbs.ts'
import { callOf, type Call } from './wire/calls.ts'
import type { Master } from './wire/master.ts'

/** What a caller asks for. */
export interface Demand {
  /** Sorted, without repetitions. */
  readonly names: readonly string[]
  readonly terms: LeaseTerms
  /** How much longer it waits if it is not granted; 0 for not at all. */
  readonly waitMs: number
  /** Under what name it then has a place among others, and hears of releases; '' for none. */
  readonly waiter: string
}

export class Attempt implements Grant {
  readonly fleet: LockFleet
  /** Sorted, without repetitions: all or none are granted, under one token and fencing token. */
  readonly resources: readonly string[]
  readonly demand: Demand
  readonly terms: LeaseTerms
  readonly token: string
  readonly start: Instant
  /** Once it is granted. */
  trust!: Trust
  /** The counter that it proposes, and then what a quorum has: the first fencing token. */
  fencingToken: number
  /** From the first question to the grant. */
  tookMs = 0
  /** Still being filled in: a master that has not answered may yet grant. */
  votes: readonly (Vote | undefined)[] | undefined
  /** Of the masters, when they were asked. */
  readonly states: LockFleet['states']
  /** Masters that were sent the key again and have not said what became of it. */
  healing: Set<Master> | undefined
  /** Where its keys are deleted. */
  releaseCall: Call | undefined

  constructor(fleet: LockFleet, resources: readonly string[], demand: Demand) {
    this.fleet = fleet
    this.resources = resources
    this.demand = demand
    const { maxLeaseMs } = fleet.settings
    const { terms } = demand
    // The fleet may have been resized while its caller waited.
    // rule: no-lease-is-longer-than-its-fleet-allows
    this.terms = terms.leaseMs > maxLeaseMs ? { ...terms, leaseMs: maxLeaseMs } : terms
    this.start = instant(fleet.settings.clock)
    const { token, fence } = fleet.proposals.next()
    this.token = token
    this.fencingToken = fence
    this.states = fleet.states
  }

  get maxLeaseMs(): number {
    return this.fleet.settings.maxLeaseMs
  }

  /** Asks once. @throws RedlockClosedError where its lock was closed; no lease is left behind. */
  async take(): Promise<AcquireOutcome> {
    const { fleet, resources, token, fencingToken: fence } = this
    if (fleet.isClosed) throw new RedlockClosedError()
    const { leaseMs } = this.terms
    const { waitMs, waiter } = this.demand
    const call = callOf({ verb: 'acquire', resources, token, fence, leaseMs, waitMs, waiter })
    // An answer that comes after the lease would be over is none.
    const timeoutMs = Math.min(fleet.settings.masterTimeoutMs, leaseMs)
    const vote = new Poll(this, 'acquire', call, timeoutMs)
    this.votes = vote.votes
    await vote.decided
    if (vote.verdict === 'against') return this.#refused(vote)
    const { counter, masters } = highest(vote.votes, fence)
    if (counter !== fence) fleet.proposals.observe(counter)
    this.fencingToken = counter
    // rule: a-quorum-has-exactly-the-token
    if (masters < fleet.quorum) return this.#confirm()
    return this.#end(undefined)
  }

  /** The granted counters differ: raises them to the largest one. */
  async #confirm(): Promise<AcquireOutcome> {
    const { fleet, resources, token, fencingToken: fence } = this
    const call = callOf({ verb: 'confirm', resources, token, fence })
    const raised = new Poll(this, 'confirm', call, fleet.settings.masterTimeoutMs)
    await raised.decided
    return raised.verdict === 'for' ? this.#end(undefined) : this.#refused(raised)
  }

  /** Where no quorum names a holder, every answer helps to say why. */
  async #refused(vote: Poll): Promise<AcquireOutcome> {
    releaseEverywhere(this)
    if (holderBy(vote.votes) === undefined) await vote.complete
    return this.#end(explain(this.resources, vote.votes, this.fleet.names))
  }

  /** A master did not confirm that it has deleted the keys. */
  releaseLater(master: Master): void {
    this.fleet.inBackground(releaseLater(this, master))
  }

  /** A quorum has granted it, or `refusal` says why not. */
  #end(refusal: NotGranted | undefined): AcquireOutcome | Promise<never> {
    const { fleet, resources, start, terms } = this
    const { clock, driftFactor } = fleet.settings
    const end = instant(clock)
    this.tookMs = end.now - start.now
    // rule: trust-from-before-the-first-command
    this.trust = trustFrom(start, terms.leaseMs, driftFactor)
    let why = refusal
    // rule: too-late-after-the-votes
    if (why === undefined && remainingMs(this.trust, end) <= 0) {
      releaseEverywhere(this)
      why = tooLate(resources, terms.leaseMs, this.tookMs, fleet.names)
    }
    const status: AcquireOutcome['status'] = why === undefined ? 'granted' : why.status
    if (status !== 'unreachable') fleet.attemptMs = this.tookMs
    if (fleet.channel.hears('lease:attempted')) {
      const fencingToken = why === undefined ? this.fencingToken : undefined
      const told = { resources, status, durationMs: this.tookMs, handOver: false, fencingToken }
      fleet.channel.tell('lease:attempted', told)
    }
    const outcome = why ?? { status: 'granted', lease: new QuorumLease(this) }
    return fleet.isClosed ? closed(outcome) : outcome
  }
}

async function closed(outcome: AcquireOutcome): Promise<never> {
  if (outcome.status === 'granted') await outcome.lease.release()
  throw new RedlockClosedError()
}

/** What an attempt has become: a lease on a quorum of masters. */
export class QuorumLease extends HeldLease {
  readonly #attempt: Attempt

  /** @internal */
  constructor(attempt: Attempt, grant: Grant = attempt) {
    super(attempt.fleet.leases, grant)
    this.#attempt = attempt
  }

  get fleet(): LockFleet {
    return this.#attempt.fleet
  }

  /** Under what name its caller may have waited: that place ends with the lease. */
  get waiter(): string {
    return this.#attempt.demand.waiter
  }

  /**
   * The next piece of work under the same keys: ends this lease here and goes on with the next
   * fencing token that its grant left room for. Undefined, and nothing has happened, when too
   * little is left of the tokens or of the trust.
   * @throws LeaseLostError when the lease is over.
   */
  handOver(terms: LeaseTerms): QuorumLease | undefined {
    this.assertHeld()
    const { leaseMs } = this
    if (terms.leaseMs !== leaseMs || !canBeRenewed(leaseMs, this.remainingMs())) return undefined
    const { resources, token, fencingToken: first, fleet } = this.#attempt
    const fencingToken = this.fencingToken + 1
    // rule: as-many-hand-overs-as-tokens
    if (fencingToken === first + TOKENS_PER_GRANT) return undefined
    this.endInFavour()
    const start = instant(fleet.settings.clock)
    // rule: handed-over-lease-is-no-longer
    const { trust } = this
    return new QuorumLease(this.#attempt, { resources, token, fencingToken, terms, start, trust })
  }

  protected renew(startedAt: Instant, leftMs: number): Promise<Renewed> {
    return extendLease(this.#attempt, this, startedAt, leftMs)
  }

  /** Deletes the keys on every master. */
  protected free(): Promise<void> {
    const { fleet, tookMs, demand } = this.#attempt
    const graceMs = Math.min(fleet.settings.masterTimeoutMs, turnMs(tookMs))
    const { decided } = releaseEverywhere(this.#attempt, graceMs, demand.waiter)
    fleet.announcements?.releasing(this.resources, demand.waiter)
    return decided
  }
}

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
    // Twelve random characters tell clients apart. Redis pays for each of them.
    this.#tokenEnd = `${randomBytes(9).toString('base64url')}@${owner}`
    this.#clock = clock
    this.#maxAheadUs = (maxClockSkewMs * 1000) / 2
  }

  /** No other attempt has the token, of this client or of another. */
  next(): { readonly token: string; readonly fence: number } {
    const wallUs = Math.floor(this.#clock.wallNow() * 1000)
    if (this.#seen > wallUs + this.#maxAheadUs) this.#seen = 0
    this.#seen = Math.max(wallUs, this.#seen + 1)
    // rule: fresh-token-per-attempt
    const token = `${(this.#serial++).toString(36)}${this.#tokenEnd}`
    return { token, fence: this.#seen }
  }

  observe(counter: number): void {
    const isAhead = counter > this.#clock.wallNow() * 1000 + this.#maxAheadUs
    if (!isAhead && counter > this.#seen) this.#seen = counter
  }
}
