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
import { RESERVED } from './scripts.ts'
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
