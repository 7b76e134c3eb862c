/** Why an attempt was not granted, read from its votes. Pure. */
import type { NotGranted } from '../../lock/outcome.ts'
import { describeToken, describeVote, type AcquireVote } from '../verbs/votes.ts'
import { holderOf } from './holder.ts'
import { quorumOf } from './quorum.ts'

type Votes = readonly (AcquireVote | undefined)[]

/** The token that a quorum of the votes names as the holder's. */
export function holderBy(votes: Votes): string | undefined {
  return holderOf(votes.map((vote) => (vote?.kind === 'taken' ? vote.holder : undefined)))
}

/** `votes` are complete, or name a holder with a quorum. */
export function explain(resource: string, votes: Votes, names: readonly string[]): NotGranted {
  const answers = names.map((master, index) => ({ master, answer: describeVote(votes[index]) }))
  const holder = holderBy(votes)
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
