/** What became of an attempt that was not granted, read from its votes. Pure. */
import {
  QuorumUnreachableError,
  ResourceTakenError,
  SplitVoteError,
  type MasterAnswer,
  type RedlockError,
} from '../errors.ts'
import type { Lease } from './lease.ts'
import { quorumOf } from './quorum.ts'
import { describeToken, describeVote, type AcquireVote } from './votes.ts'

/** Somebody holds a quorum: wait for it to end, at most `retryAfterMs`. */
export interface Taken {
  readonly status: 'taken'
  readonly resource: string
  /** The holder's `owner` and the beginning of its token. */
  readonly holder: string
  readonly retryAfterMs: number
  readonly answers: readonly MasterAnswer[]
}

/** Nobody holds a quorum: retry soon, after a random delay. No holder will ever release. */
export interface Split {
  readonly status: 'split'
  readonly resource: string
  readonly answers: readonly MasterAnswer[]
}

/** Too few masters could vote, or they took so long that the lease was over before it began. */
export interface Unreachable {
  readonly status: 'unreachable'
  readonly resource: string
  /** When enough quarantined masters vote again; 0 when that is not what is missing. */
  readonly retryAfterMs: number
  readonly answers: readonly MasterAnswer[]
}

export type NotGranted = Taken | Split | Unreachable
export type AcquireOutcome = { readonly status: 'granted'; readonly lease: Lease } | NotGranted

type Votes = readonly (AcquireVote | undefined)[]

/** The token that a quorum of the masters named as the holder, if there is one. */
export function holderOf(votes: Votes): string | undefined {
  const counts = new Map<string, number>()
  for (const vote of votes) {
    if (vote?.kind !== 'taken') continue
    const count = (counts.get(vote.holder) ?? 0) + 1
    if (count >= quorumOf(votes.length)) return vote.holder
    counts.set(vote.holder, count)
  }
  return undefined
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
  return { status: 'unreachable', resource, retryAfterMs, answers }
}

export function outcomeError(outcome: NotGranted): RedlockError {
  const { resource, answers } = outcome
  switch (outcome.status) {
    case 'taken':
      return new ResourceTakenError(resource, outcome.holder, outcome.retryAfterMs, answers)
    case 'split':
      return new SplitVoteError(resource, answers)
    case 'unreachable': {
      const quorum = quorumOf(answers.length)
      return new QuorumUnreachableError(resource, quorum, outcome.retryAfterMs, answers)
    }
  }
}
