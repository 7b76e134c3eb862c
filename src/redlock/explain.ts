/** Why an attempt was not granted, read from its votes. Pure. */
import type { MasterAnswer } from '../lock-errors.ts'
import type { NotGranted, Unreachable } from '../lock/outcome.ts'
import { describeToken, labelOf } from '../names.ts'
import { describeVote, type Vote } from './verbs.ts'
import { holderOf, quorumOf } from './quorum.ts'

type Votes = readonly (Vote | undefined)[]

/** The token that a quorum of the votes names as the holder's. */
export function holderBy(votes: Votes): string | undefined {
  return holderOf(votes.map((vote) => (vote?.kind === 'taken' ? vote.holder : undefined)))
}

/** Every master's vote in words. */
export function answersOf(names: readonly string[], votes: Votes): readonly MasterAnswer[] {
  return names.map((master, index) => ({ master, answer: describeVote(votes[index]) }))
}

/** What a master says that can vote. */
const USABLE = ['granted', 'taken', 'counter', 'lost']

/**
 * `votes` are complete, or name a holder with a quorum. Where they confirm, the key or the counter
 * changed hands between the two rounds, or masters went away.
 */
export function explain(
  resources: readonly string[],
  votes: Votes,
  names: readonly string[],
): NotGranted {
  const label = labelOf(resources)
  const answers = answersOf(names, votes)
  const holder = holderBy(votes)
  if (holder !== undefined) {
    const taken = votes.filter((vote) => vote?.kind === 'taken')
    const retryAfterMs = Math.max(0, ...taken.map(({ ttlMs }) => ttlMs))
    const { at = 0 } = taken.find((vote) => vote.holder === holder) ?? {}
    const resource = resources[at - 1] ?? label
    return { status: 'taken', resource, holder: describeToken(holder), retryAfterMs, answers }
  }
  const quorum = quorumOf(votes.length)
  const usable = votes.filter((vote) => vote !== undefined && USABLE.includes(vote.kind)).length
  if (usable >= quorum) return { status: 'split', resource: label, answers }
  const waits = votes.flatMap((vote) => (vote && 'waitMs' in vote ? [vote.waitMs] : []))
  const retryAfterMs = waits.sort((a, b) => a - b)[quorum - usable - 1] ?? 0
  return { status: 'unreachable', resource: label, retryAfterMs, quorum, answers }
}

export function tooLate(
  resources: readonly string[],
  leaseMs: number,
  tookMs: number,
  names: readonly string[],
): Unreachable {
  const answer =
    `a quorum granted, but after ${Math.ceil(tookMs)} ms ` +
    `a lease of ${leaseMs} ms (\`leaseMs\`) was already over`
  const answers = names.map((master) => ({ master, answer }))
  const [resource, quorum] = [labelOf(resources), quorumOf(names.length)]
  return { status: 'unreachable', resource, retryAfterMs: 0, quorum, answers }
}
