/**
 * One attempt to acquire: a vote, and where the granted counters differ a second one that fixes
 * the fencing token.
 *
 *   acquire everywhere ─ quorum granted ─▶ t = max(counter) ─ a quorum reported exactly t ─▶ complete
 *          │                                      │
 *          │                                      └─ else confirm: raise to t where the key is mine;
 *          │                                         a quorum now at exactly t ─▶ complete
 *          └─ no quorum, confirm failed, or the trust ran out meanwhile ─▶ release on *every* master
 *
 * Completing with the counter at exactly t on a quorum is what makes tokens increase: any later
 * quorum shares a master with this one, and that master grants more than t.
 */
import { randomUUID } from 'node:crypto'
import { pollAcquire, pollConfirm, pollRelease, type Claim, type Request } from './verbs/ballots.ts'
import type { Fleet } from './fleet/fleet.ts'
import type { NotGranted, Unreachable } from '../lock/outcome.ts'
import { explain, holderOf } from './quorum/explain.ts'
import type { Poll } from './quorum/poll.ts'
import type { ProposalClock } from './proposal.ts'
import { quorumOf } from './quorum/quorum.ts'
import { labelOf } from '../lock/resources.ts'
import { instant, remainingMs, trustFrom, type Instant, type Trust } from '../lock/trust.ts'
import { describeVote, type AcquireVote, type ConfirmVote } from './verbs/votes.ts'

/** What a completed attempt hands to the lease. */
export interface Grant {
  readonly status: 'granted'
  readonly claim: Claim
  readonly leaseMs: number
  /** By what name it may have waited, and has a place in the line until it is released; '' for none. */
  readonly waiter: string
  /** What a quorum has for it: the first fencing token of the grant. */
  readonly counter: number
  readonly startedAt: Instant
  /** From the first question to the grant. */
  readonly tookMs: number
  readonly trust: Trust
  /** Still being filled in: a master that has not answered may yet grant. */
  readonly votes: Poll<AcquireVote>['votes']
  /** Of the masters, when they were asked. */
  readonly states: Fleet['states']
  /** When every master has answered or run into its deadline. */
  readonly complete: Promise<void>
}

export async function attempt(
  fleet: Fleet,
  proposals: ProposalClock,
  resources: readonly string[],
  request: Request,
  background: (work: Promise<void>) => void,
): Promise<Grant | NotGranted> {
  const { clock, driftFactor, owner } = fleet.settings
  const { leaseMs, waiter } = request
  const resource = labelOf(resources)
  const startedAt = instant(clock)
  const trust = trustFrom(startedAt, leaseMs, driftFactor)
  const claim: Claim = { resources, token: `${randomUUID()}@${owner}` }
  const ballot = pollAcquire(fleet, claim, request, proposals.next())
  const asked = { votes: ballot.votes, states: fleet.states }
  const giveUp = (): void => {
    const unsettled = (index: number): boolean => mayStillGrant(fleet, asked, index)
    background(pollRelease(fleet, claim, leaseMs, unsettled, background).complete)
  }

  if ((await ballot.verdict) === 'against') {
    giveUp()
    if (holderOf(ballot.votes) === undefined) await ballot.complete
    return explain(resource, ballot.votes, names(fleet))
  }
  const counter = highestCounter(ballot.votes)
  proposals.observe(counter)
  if (!exactlyOnQuorum(ballot.votes, counter)) {
    const confirm = pollConfirm(fleet, claim, counter)
    if ((await confirm.verdict) === 'against') {
      giveUp()
      await confirm.complete
      return explainConfirm(fleet, resource, confirm.votes)
    }
  }
  const now = instant(clock)
  const tookMs = now.now - startedAt.now
  if (remainingMs(trust, now) <= 0) {
    giveUp()
    return tooLate(fleet, resource, leaseMs, tookMs)
  }
  const end = { startedAt, tookMs, trust, ...asked, complete: ballot.complete }
  return { status: 'granted', claim, leaseMs, waiter, counter, ...end }
}

/**
 * Whether a master may grant after a release that leaves now. No answer, or none that says the script did not run, and on another
 * connection: what follows the question on its own comes behind it, because a server runs in order what arrives on one.
 */
export function mayStillGrant(
  { masters }: Fleet,
  { votes, states }: Pick<Grant, 'votes' | 'states'>,
  index: number,
): boolean {
  const vote = votes[index]
  const unknown = vote === undefined || (vote.kind === 'failed' && vote.mayHaveRun)
  return unknown && masters[index]?.state !== states[index]
}

function highestCounter(votes: readonly (AcquireVote | undefined)[]): number {
  return Math.max(...votes.map((vote) => (vote?.kind === 'granted' ? vote.counter : 0)))
}

function exactlyOnQuorum(votes: readonly (AcquireVote | undefined)[], counter: number): boolean {
  const exact = votes.filter((vote) => vote?.kind === 'granted' && vote.counter === counter)
  return exact.length >= quorumOf(votes.length)
}

/** The key or the counter changed hands between the two rounds, or masters went away. */
function explainConfirm(
  fleet: Fleet,
  resource: string,
  votes: readonly (ConfirmVote | undefined)[],
): NotGranted {
  const answers = names(fleet).map((master, index) => ({
    master,
    answer: describeVote(votes[index]),
  }))
  const answered = votes.filter((vote) => vote !== undefined && vote.kind !== 'failed').length
  if (answered >= fleet.quorum) return { status: 'split', resource, answers }
  return { status: 'unreachable', resource, retryAfterMs: 0, quorum: fleet.quorum, answers }
}

function tooLate(fleet: Fleet, resource: string, leaseMs: number, tookMs: number): Unreachable {
  const answer = `a quorum granted, but after ${Math.ceil(tookMs)} ms a lease of ${leaseMs} ms (\`leaseMs\`) was already over`
  const answers = names(fleet).map((master) => ({ master, answer }))
  return { status: 'unreachable', resource, retryAfterMs: 0, quorum: fleet.quorum, answers }
}

function names(fleet: Fleet): readonly string[] {
  return fleet.masters.map(({ name }) => name)
}
