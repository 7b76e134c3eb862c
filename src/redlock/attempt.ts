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
import type { NotGranted, Unreachable } from '../lock/outcome.ts'
import { labelOf } from '../lock/resources.ts'
import { instant, remainingMs, trustFrom, type Instant, type Trust } from '../lock/trust.ts'
import type { Fleet } from './fleet/fleet.ts'
import type { ProposalClock } from './proposal.ts'
import { explain, holderBy } from './quorum/explain.ts'
import { Poll } from './quorum/poll.ts'
import { quorumOf } from './quorum/quorum.ts'
import { Acquire, type Wish } from './verbs/acquire.ts'
import type { Claim } from './verbs/claim.ts'
import { Confirm } from './verbs/confirm.ts'
import { Release } from './verbs/release.ts'
import { describeVote, type AcquireVote, type ConfirmVote } from './verbs/votes.ts'

/** An attempt that completed. */
export interface Granted {
  readonly status: 'granted'
  readonly grant: Grant
  readonly poll: Poll<AcquireVote>
}

/** What the lease keeps of it, as long as it is held. */
export interface Grant {
  readonly claim: Claim
  readonly leaseMs: number
  /** By what name it may have waited, and has a place until it is released; '' for none. */
  readonly waiter: string
  /** What a quorum has for it: the first fencing token of the grant. */
  readonly counter: number
  readonly startedAt: Instant
  /** From the first question to the grant. */
  readonly tookMs: number
  readonly trust: Trust
  /** Still being filled in: a master that has not answered may yet grant. */
  readonly votes: Votes
  /** Of the masters, when they were asked. */
  readonly states: Fleet['states']
}

type Votes = readonly (AcquireVote | undefined)[]

export async function attempt(
  fleet: Fleet,
  proposals: ProposalClock,
  resources: readonly string[],
  wish: Wish,
): Promise<Granted | NotGranted> {
  const { clock, driftFactor, owner } = fleet.settings
  const { leaseMs, waiter } = wish
  const startedAt = instant(clock)
  const trust = trustFrom(startedAt, leaseMs, driftFactor)
  const claim: Claim = { resources, token: `${randomUUID()}@${owner}` }
  const poll = new Poll(fleet, new Acquire(fleet, claim, wish, proposals.next()))
  const { votes } = poll
  const { states } = fleet

  if ((await poll.verdict) === 'against') {
    abandon(fleet, claim, leaseMs, { votes, states })
    if (holderBy(poll.votes) === undefined) await poll.complete
    return explain(labelOf(resources), poll.votes, names(fleet))
  }
  const counter = highestCounter(poll.votes)
  proposals.observe(counter)
  if (!exactlyOnQuorum(poll.votes, counter)) {
    const confirm = new Poll(fleet, new Confirm(fleet, claim, counter))
    if ((await confirm.verdict) === 'against') {
      abandon(fleet, claim, leaseMs, { votes, states })
      await confirm.complete
      return explainConfirm(fleet, labelOf(resources), confirm.votes)
    }
  }
  const now = instant(clock)
  const tookMs = now.now - startedAt.now
  if (remainingMs(trust, now) <= 0) {
    abandon(fleet, claim, leaseMs, { votes, states })
    return tooLate(fleet, labelOf(resources), leaseMs, tookMs)
  }
  const when = { startedAt, tookMs, trust }
  const grant = { claim, leaseMs, waiter, counter, ...when, votes, states }
  return { status: 'granted', grant, poll }
}

/** Releases on every master what the attempt may have been granted. */
function abandon(fleet: Fleet, claim: Claim, leaseMs: number, asked: Asked): void {
  const isUnsettled = (index: number): boolean => mayStillGrant(fleet, asked, index)
  new Poll(fleet, new Release(fleet, { claim, leaseMs, isUnsettled, graceMs: 0, waiter: '' }))
}

type Asked = Pick<Grant, 'votes' | 'states'>

/**
 * Whether a master may grant after a release that leaves now: it gave no answer, or none that says
 * the script did not run, and it has another connection now. On the same connection the release
 * comes behind the question, because a server runs in order what arrives on one.
 */
export function mayStillGrant(
  { masters }: Fleet,
  { votes, states }: Asked,
  index: number,
): boolean {
  const vote = votes[index]
  const unknown = vote === undefined || (vote.kind === 'failed' && vote.mayHaveRun)
  return unknown && masters[index]?.state !== states[index]
}

function highestCounter(votes: Votes): number {
  let highest = 0
  for (const vote of votes) {
    if (vote?.kind === 'granted' && vote.counter > highest) highest = vote.counter
  }
  return highest
}

function exactlyOnQuorum(votes: Votes, counter: number): boolean {
  let exact = 0
  for (const vote of votes) {
    if (vote?.kind === 'granted' && vote.counter === counter) exact++
  }
  return exact >= quorumOf(votes.length)
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
  const answer =
    `a quorum granted, but after ${Math.ceil(tookMs)} ms ` +
    `a lease of ${leaseMs} ms (\`leaseMs\`) was already over`
  const answers = names(fleet).map((master) => ({ master, answer }))
  return { status: 'unreachable', resource, retryAfterMs: 0, quorum: fleet.quorum, answers }
}

function names(fleet: Fleet): readonly string[] {
  return fleet.masters.map(({ name }) => name)
}
