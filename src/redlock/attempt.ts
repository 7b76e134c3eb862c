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
import type { LockFleet } from './fleet/fleet.ts'
import { explain, explainConfirm, holderBy, tooLate } from './quorum/explain.ts'
import { Poll } from './quorum/poll.ts'
import { Acquire, type ProposalClock } from './verbs/acquire.ts'
import type { Attempt } from './verbs/attempt.ts'
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
  readonly attempt: Attempt
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
  readonly states: LockFleet['states']
}

export async function take(
  fleet: LockFleet,
  proposals: ProposalClock,
  asked: Omit<Attempt, 'token'>,
): Promise<Granted | NotGranted> {
  const { clock, driftFactor, owner } = fleet.settings
  const { resources, leaseMs, waitMs, waiter } = asked
  const start: Instant = instant(clock)
  const trust = trustFrom(start, leaseMs, driftFactor)
  // rule: fresh-token-per-attempt
  const token = `${randomUUID()}@${owner}`
  const attempt: Attempt = { resources, token, leaseMs, waitMs, waiter }
  const proposal = proposals.next()
  const acquire = new Acquire(fleet, attempt, proposal)
  const poll = new Poll(fleet, acquire)
  const answers = { votes: poll.votes, states: fleet.states }

  if ((await poll.verdict) === 'against') {
    abandon(fleet, attempt, answers)
    if (holderBy(poll.votes) === undefined) await poll.complete
    return explain(resources, poll.votes, fleet.names)
  }
  const { counter } = acquire
  if (counter !== proposal) proposals.observe(counter)
  // rule: a-quorum-has-exactly-the-token
  if (acquire.atCounter < fleet.quorum) {
    const confirm = new Poll(fleet, new Confirm(fleet, attempt, counter))
    if ((await confirm.verdict) === 'against') {
      abandon(fleet, attempt, answers)
      await confirm.complete
      return explainConfirm(labelOf(resources), confirm.votes, fleet.names)
    }
  }
  const end = instant(clock)
  const tookMs = end.now - start.now
  const leftMs = remainingMs(trust, end)
  // rule: too-late-after-the-votes
  if (leftMs <= 0) {
    abandon(fleet, attempt, answers)
    return tooLate(labelOf(resources), leaseMs, tookMs, fleet.names)
  }
  // rule: trust-from-before-the-first-command
  const grant = { attempt, counter, startedAt: start.now, tookMs, trust, ...answers }
  return { status: 'granted', grant, leftMs }
}

/** Releases on every master what the attempt may have been granted. */
function abandon(fleet: LockFleet, attempt: Attempt, answers: Answers): void {
  const isUnsettled = (index: number): boolean => mayStillGrant(fleet, answers, index)
  new Poll(fleet, new Release(fleet, { attempt, isUnsettled, graceMs: 0, waiter: '' }))
}

type Answers = Pick<Grant, 'votes' | 'states'>

/**
 * Whether a master may grant after a release that leaves now: it gave no answer, or none that says
 * the script did not run, and it has another connection now. On the same connection the release
 * comes behind the question, because a server runs in order what arrives on one.
 */
export function mayStillGrant(
  { masters }: LockFleet,
  { votes, states }: Answers,
  index: number,
): boolean {
  const vote = votes[index]
  const unknown = vote === undefined || (vote.kind === 'failed' && vote.mayHaveRun)
  // rule: tombstone-behind-another-connection
  return unknown && masters[index]?.state !== states[index]
}
