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
import { instant, sleep, type Instant } from '../clock.ts'
import { RedlockClosedError } from '../errors.ts'
import type { LeaseTerms } from '../lock/lease-option.ts'
import type { AcquireOutcome, NotGranted } from '../lock/outcome.ts'
import { remainingMs, trustFrom, type Trust } from '../lock/trust.ts'
import { explain, explainConfirm, holderBy, tooLate } from './explain.ts'
import type { LockFleet } from './fleet/fleet.ts'
import { highest, Poll } from './poll.ts'
import { QuorumLease } from './quorum-lease.ts'
import { acquire, confirm, release, type AcquireVote, type ReleaseVote } from './verbs.ts'
import { callOf, type Call } from './wire/batch.ts'
import { callMaster, type Master } from './wire/master.ts'

/** A tombstone outlives every command of its attempt that may still travel. */
const TOMBSTONE_LEASES = 2
/** A release that a master did not confirm is repeated this often at most. */
const MAX_RELEASE_TRIES = 5
const RELEASE_RETRY_MS = 25

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

export class Attempt {
  readonly fleet: LockFleet
  /** Sorted, without repetitions: all or none are granted, under one token and fencing token. */
  readonly resources: readonly string[]
  readonly demand: Demand
  readonly token: string
  /** Before the first command left. */
  readonly start: Instant
  /** Once it is granted. */
  trust!: Trust
  /** The counter that it proposes, and then what a quorum has: the first fencing token. */
  fence: number
  /** The vote of a master that stores the proposal. */
  readonly granted: AcquireVote
  /** From the first question to the grant. */
  tookMs = 0
  /** Masters that were sent the key again and have not said what became of it. */
  healing: Set<number> | undefined
  /** Still being filled in: a master that has not answered may yet grant. */
  #votes: Poll<AcquireVote>['votes'] | undefined
  /** Of the masters, when they were asked. */
  readonly #states: LockFleet['states']
  #releaseCall: Call | undefined
  #callForGood: Call | undefined

  constructor(fleet: LockFleet, resources: readonly string[], demand: Demand) {
    this.fleet = fleet
    this.resources = resources
    this.demand = demand
    this.token = fleet.proposals.token()
    this.start = instant(fleet.settings.clock)
    this.fence = fleet.proposals.fence()
    this.granted = { kind: 'granted', counter: this.fence }
    this.#states = fleet.states
  }

  get leaseMs(): number {
    return this.demand.terms.leaseMs
  }

  get maxLeaseMs(): number {
    return this.fleet.settings.maxLeaseMs
  }

  /**
   * Asks for the lease, once.
   * @throws RedlockClosedError where its lock was closed meanwhile; a lease that was granted is
   * released.
   */
  take(): Promise<AcquireOutcome> {
    const { fleet, resources, token, fence } = this
    const { terms, waitMs, waiter } = this.demand
    const { leaseMs } = terms
    const call = callOf({ verb: 'acquire', resources, token, fence, leaseMs, waitMs, waiter })
    // An answer that comes after the lease would be over is none.
    const timeoutMs = Math.min(fleet.settings.masterTimeoutMs, leaseMs)
    const vote = new Poll(this, acquire, call, timeoutMs)
    this.#votes = vote.votes
    return vote.decided.then(() => {
      if (vote.verdict === 'against') return this.#refused(vote)
      const { counter, masters } = highest(vote.votes)
      if (counter !== fence) fleet.proposals.observe(counter)
      this.fence = counter
      // rule: a-quorum-has-exactly-the-token
      if (masters < fleet.quorum) return this.#confirm()
      return this.#end(undefined)
    })
  }

  /** Where no quorum names a holder, every answer helps to say why. */
  async #refused(vote: Poll<AcquireVote>): Promise<AcquireOutcome> {
    this.release()
    if (holderBy(vote.votes) === undefined) await vote.complete
    return this.#end(explain(this.resources, vote.votes, this.fleet.names))
  }

  /** The granted counters differ: raises them to the largest one. */
  async #confirm(): Promise<AcquireOutcome> {
    const { fleet, resources, token, fence } = this
    const raise = callOf({ verb: 'confirm', resources, token, fence })
    const raised = new Poll(this, confirm, raise, fleet.settings.masterTimeoutMs)
    await raised.decided
    if (raised.verdict === 'for') return this.#end(undefined)
    this.release()
    await raised.complete
    return this.#end(explainConfirm(resources, raised.votes, fleet.names))
  }

  /** A quorum has granted it, or `refusal` says why not. */
  #end(refusal: NotGranted | undefined): AcquireOutcome | Promise<never> {
    const { fleet, resources, start } = this
    const { terms } = this.demand
    const { clock, driftFactor } = fleet.settings
    const end = instant(clock)
    this.tookMs = end.now - start.now
    // rule: trust-from-before-the-first-command
    this.trust = trustFrom(this.start, terms.leaseMs, driftFactor)
    let why = refusal
    // rule: too-late-after-the-votes
    if (why === undefined && remainingMs(this.trust, end) <= 0) {
      this.release()
      why = tooLate(resources, terms.leaseMs, this.tookMs, fleet.names)
    }
    const status: AcquireOutcome['status'] = why === undefined ? 'granted' : why.status
    if (status !== 'unreachable') fleet.attemptMs = this.tookMs
    if (fleet.channel.hears('lease:attempted')) {
      const fencingToken = why === undefined ? this.fence : undefined
      const told = { resources, status, durationMs: this.tookMs, handOver: false, fencingToken }
      fleet.channel.tell('lease:attempted', told)
    }
    const outcome = why ?? {
      status: 'granted',
      lease: new QuorumLease(this, terms, start.now),
    }
    return fleet.isClosed ? closed(outcome) : outcome
  }

  /**
   * Deletes the keys on every master, whatever each of them answered before.
   * @param graceMs how long the resource is reserved for the next waiter.
   * @param waiter by what name the holder may have waited.
   */
  release(graceMs = 0, waiter = ''): Poll<ReleaseVote> {
    const { resources, token } = this
    const call = callOf({ verb: 'release', resources, token, waitMs: graceMs, waiter })
    this.#releaseCall = call
    const { masters, settings } = this.fleet
    const calls = new Array<Call>(masters.length)
    for (let index = 0; index < masters.length; index++) {
      // rule: release-on-every-master
      calls[index] = this.#mayStillChange(index) ? this.#forGood : call
    }
    return new Poll(this, release, calls, settings.masterTimeoutMs)
  }

  /** The same, and from now on the master refuses the token. */
  get #forGood(): Call {
    const { asked } = this.#releaseCall ?? { asked: { verb: 'release' } }
    return (this.#callForGood ??= callOf({ ...asked, leaseMs: TOMBSTONE_LEASES * this.maxLeaseMs }))
  }

  /**
   * A master that does not confirm is asked again in the background. The key is gone at the latest
   * when the lease would have ended, so that bounds the effort.
   */
  releaseLater(master: Master): void {
    this.fleet.inBackground(this.#releaseLater(master))
  }

  async #releaseLater(master: Master): Promise<void> {
    const { clock } = this.fleet.settings
    const call = this.#forGood
    const until = clock.now() + this.leaseMs
    for (let tries = 0; tries < MAX_RELEASE_TRIES; tries++) {
      const leftMs = until - clock.now()
      if (leftMs <= 0 || !(await master.whenEnrolled(leftMs))) return
      const timeoutMs = Math.max(1, until - clock.now())
      const result = await callMaster(master, clock, call, timeoutMs)
      if (release.read(result, this).kind !== 'failed') return
      await sleep(clock, RELEASE_RETRY_MS)
    }
  }

  /**
   * Whether a master may grant or heal after a release that leaves now: it gave no answer, or none
   * that says the script did not run, and it has another connection now. On the same connection the
   * release comes behind the question, because a server runs in order what arrives on one.
   */
  #mayStillChange(index: number): boolean {
    if (this.healing?.has(index) === true) return true
    const vote = this.#votes?.[index]
    const unknown = vote === undefined || (vote.kind === 'failed' && vote.mayHaveRun)
    // rule: tombstone-behind-another-connection
    return unknown && this.fleet.masters[index]?.state !== this.#states[index]
  }
}

async function closed(outcome: AcquireOutcome): Promise<never> {
  if (outcome.status === 'granted') await outcome.lease.release()
  throw new RedlockClosedError()
}
