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
import type { NotGranted } from '../lock/outcome.ts'
import { labelOf } from '../lock/resources.ts'
import { remainingMs, trustFrom, type Trust } from '../lock/trust.ts'
import { ask, type Poll } from './ask.ts'
import type { LockFleet } from './fleet/fleet.ts'
import { explain, explainConfirm, holderBy, tooLate } from './quorum/explain.ts'
import { highest } from './quorum/quorum.ts'
import { acquire, confirm, release } from './verbs/verbs.ts'
import type { AcquireVote, ReleaseVote } from './verbs/votes.ts'
import { callOf, type Call } from './wire/batch.ts'
import { callMaster, type Master } from './wire/master.ts'

/** A tombstone outlives every command of its attempt that may still travel. */
const TOMBSTONE_LEASES = 2
/** A release that a master did not confirm is repeated this often at most. */
const MAX_RELEASE_TRIES = 5
const RELEASE_RETRY_MS = 25

/** How a caller waits that is not granted: it has a place among others, and hears of releases. */
export interface Waiting {
  /** How much longer it waits; 0 for not at all. */
  readonly waitMs: number
  /** By what name; '' for none. */
  readonly waiter: string
}

export class Attempt {
  readonly fleet: LockFleet
  /** Sorted, without repetitions: all or none are granted, under one token and fencing token. */
  readonly resources: readonly string[]
  readonly leaseMs: number
  readonly waiting: Waiting
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
  #votes: Poll<AcquireVote>['votes'] = []
  /** Of the masters, when they were asked. */
  readonly #states: LockFleet['states']
  #releaseCall: Call | undefined
  #callForGood: Call | undefined

  constructor(fleet: LockFleet, resources: readonly string[], leaseMs: number, waiting: Waiting) {
    this.fleet = fleet
    this.resources = resources
    this.leaseMs = leaseMs
    this.waiting = waiting
    this.token = fleet.freshToken()
    this.start = instant(fleet.settings.clock)
    this.fence = fleet.proposals.next()
    this.granted = { kind: 'granted', counter: this.fence }
    this.#states = fleet.states
  }

  get maxLeaseMs(): number {
    return this.fleet.settings.maxLeaseMs
  }

  /** Undefined when it is granted; else why not. */
  async take(): Promise<NotGranted | undefined> {
    const { fleet, resources, token, leaseMs, fence: proposal } = this
    const { clock, masterTimeoutMs, driftFactor } = fleet.settings
    const { waitMs, waiter } = this.waiting
    const asked = { verb: 'acquire', resources, token, fence: proposal, leaseMs, waitMs, waiter }
    const call = callOf(asked)
    // An answer that comes after the lease would be over is none.
    const vote = ask(this, acquire, call, Math.min(masterTimeoutMs, leaseMs))
    this.#votes = vote.votes
    await vote.decided
    if (vote.verdict === 'against') {
      this.release()
      if (holderBy(vote.votes) === undefined) await vote.complete
      return explain(resources, vote.votes, fleet.names)
    }
    const { counter, masters } = highest(vote.votes)
    this.fence = counter
    if (counter !== proposal) fleet.proposals.observe(counter)
    // rule: a-quorum-has-exactly-the-token
    if (masters < fleet.quorum) {
      const raise = callOf({ verb: 'confirm', resources, token, fence: counter })
      const raised = ask(this, confirm, raise, masterTimeoutMs)
      await raised.decided
      if (raised.verdict === 'against') {
        this.release()
        await raised.complete
        return explainConfirm(labelOf(resources), raised.votes, fleet.names)
      }
    }
    const end = instant(clock)
    this.tookMs = end.now - this.start.now
    // rule: trust-from-before-the-first-command
    this.trust = trustFrom(this.start, leaseMs, driftFactor)
    // rule: too-late-after-the-votes
    if (remainingMs(this.trust, end) <= 0) {
      this.release()
      return tooLate(labelOf(resources), leaseMs, this.tookMs, fleet.names)
    }
    return undefined
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
    // rule: release-on-every-master
    const callTo = (index: number): Call => (this.#mayStillChange(index) ? this.#forGood : call)
    return ask(this, release, callTo, this.fleet.settings.masterTimeoutMs)
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
    const vote = this.#votes[index]
    const unknown = vote === undefined || (vote.kind === 'failed' && vote.mayHaveRun)
    // rule: tombstone-behind-another-connection
    return unknown && this.fleet.masters[index]?.state !== this.#states[index]
  }
}
