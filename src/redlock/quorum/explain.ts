/** Why an attempt was not granted, read from its votes. Pure. */
import type { NotGranted } from '../../lock/outcome.ts'
import { describeToken, describeVote, RESERVED, type AcquireVote } from '../verbs/votes.ts'
import { quorumOf } from './quorum.ts'

type Votes = readonly (AcquireVote | undefined)[]

/**
 * Whom a quorum of the masters has it for, if there is anybody: masters that keep it for those who are next
 * count for whoever holds it on others, and is likely to be one of them.
 */
export function holderOf(votes: Votes): string | undefined {
  const holders = votes.flatMap((vote) => (vote?.kind === 'taken' ? [vote.holder] : []))
  const hasQuorum = (name: string): boolean => {
    const count = holders.filter((holder) => holder === name || holder === RESERVED).length
    return count >= quorumOf(votes.length)
  }
  const named = holders.find((name) => name !== RESERVED && hasQuorum(name))
  return named ?? (hasQuorum(RESERVED) ? RESERVED : undefined)
}

/** `votes` are complete, or name a holder with a quorum. */
export function explain(resource: string, votes: Votes, names: readonly string[]): NotGranted {
  const answers = names.map((master, index) => ({ master, answer: describeVote(votes[index]) }))
  const holder = holderOf(votes)
  if (holder !== undefined) {
    const ttls = votes.map((vote) => (vote?.kind === 'taken' ? vote.ttlMs : 0))
    const retryAfterMs = Math.max(0, ...ttls)
    return { status: 'taken', resource, holder: describeToken(holder), retryAfterMs, answers }
  }
  const quorum = quorumOf(votes.length)
  const usable = votes.filter((vote) => vote?.kind === 'granted' || vote?.kind === 'taken').length
  if (usable >= quorum) return { status: 'split', resource, answers }
  const waits = votes
    .flatMap((vote) =>
      vote?.kind === 'quarantined' || vote?.kind === 'suspended' ? [vote.waitMs] : [],
    )
    .sort((a, b) => a - b)
  const retryAfterMs = waits[quorum - usable - 1] ?? 0
  return { status: 'unreachable', resource, retryAfterMs, quorum, answers }
}
