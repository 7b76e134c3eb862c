/**
 * One attempt to acquire: a vote, and where the granted counters differ a second one that fixes
 * the fencing token.
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
import { randomUUID } from 'node:crypto'
import { instant, type Instant } from '../clock.ts'
import type { NotGranted } from '../lock/outcome.ts'
import { labelOf } from '../lock/resources.ts'
import { remainingMs, trustFrom, type Trust } from '../lock/trust.ts'
import type { Fleet } from './fleet/fleet.ts'
import { explain, explainConfirm, holderBy, tooLate } from './quorum/explain.ts'
import { Poll } from './quorum/poll.ts'
import { Acquire, type ProposalClock, type Wish } from './verbs/acquire.ts'
import type { Claim } from './verbs/claim.ts'
import { Confirm } from './verbs/confirm.ts'
import { Release } from './verbs/release.ts'
import type { AcquireVote } from './verbs/votes.ts'

/** An attempt that completed. */
export interface Granted {
  readonly status: 'granted'
  readonly grant: Grant
  /** What is left of the trust. */
  readonly leftMs: number
}

/** What the lease keeps of it, as long as it is held. */
export interface Grant {
  readonly claim: Claim
  /** By what name it may have waited, and has a place until it is released; '' for none. */
  readonly waiter: string
  /** What a quorum has for it: the first fencing token of the grant. */
  readonly counter: number
  /** On the monotonic clock, before the first command left. */
  readonly startedAt: number
  /** From the first question to the grant. */
  readonly tookMs: number
  readonly trust: Trust
  /** Still being filled in: a master that has not answered may yet grant. */
  readonly votes: readonly (AcquireVote | undefined)[]
  /** Of the masters, when they were asked. */
  readonly states: Fleet['states']
}

export async function attempt(
  fleet: Fleet,
  proposals: ProposalClock,
  resources: readonly string[],
  wish: Wish,
): Promise<Granted | NotGranted> {
  const { clock, driftFactor, owner } = fleet.settings
  const { leaseMs, waiter } = wish
  const start: Instant = instant(clock)
  const trust = trustFrom(start, leaseMs, driftFactor)
  // rule: fresh-token-per-attempt
  const claim: Claim = { resources, token: `${randomUUID()}@${owner}` }
  const proposal = proposals.next()
  const acquire = new Acquire(fleet, claim, wish, proposal)
  const poll = new Poll(fleet, acquire)
  const answers = { votes: poll.votes, states: fleet.states }

  if ((await poll.verdict) === 'against') {
    abandon(fleet, claim, leaseMs, answers)
    if (holderBy(poll.votes) === undefined) await poll.complete
    return explain(labelOf(resources), poll.votes, fleet.names)
  }
  const { counter } = acquire
  if (counter !== proposal) proposals.observe(counter)
  // rule: a-quorum-has-exactly-the-token
  if (acquire.atCounter < fleet.quorum) {
    const confirm = new Poll(fleet, new Confirm(fleet, claim, counter))
    if ((await confirm.verdict) === 'against') {
      abandon(fleet, claim, leaseMs, answers)
      await confirm.complete
      return explainConfirm(labelOf(resources), confirm.votes, fleet.names)
    }
  }
  const end = instant(clock)
  const tookMs = end.now - start.now
  const leftMs = remainingMs(trust, end)
  // rule: too-late-after-the-votes
  if (leftMs <= 0) {
    abandon(fleet, claim, leaseMs, answers)
    return tooLate(labelOf(resources), leaseMs, tookMs, fleet.names)
  }
  // rule: trust-from-before-the-first-command
  const grant = { claim, waiter, counter, startedAt: start.now, tookMs, trust, ...answers }
  return { status: 'granted', grant, leftMs }
}

/** Releases on every master what the attempt may have been granted. */
function abandon(fleet: Fleet, claim: Claim, leaseMs: number, answers: Answers): void {
  const isUnsettled = (index: number): boolean => mayStillGrant(fleet, answers, index)
  new Poll(fleet, new Release(fleet, { claim, leaseMs, isUnsettled, graceMs: 0, waiter: '' }))
}

type Answers = Pick<Grant, 'votes' | 'states'>

/**
 * Whether a master may grant after a release that leaves now: it gave no answer, or none that says
 * the script did not run, and it has another connection now. On the same connection the release
 * comes behind the question, because a server runs in order what arrives on one.
 */
export function mayStillGrant(
  { masters }: Fleet,
  { votes, states }: Answers,
  index: number,
): boolean {
  const vote = votes[index]
  const unknown = vote === undefined || (vote.kind === 'failed' && vote.mayHaveRun)
  // rule: tombstone-behind-another-connection
  return unknown && masters[index]?.state !== states[index]
}
