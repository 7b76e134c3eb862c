/** One master's answer to one question. A reply that no verb knows is no vote. */
import { describeToken } from '../../lock/describe-token.ts'
import { USUAL } from '../wire/batch.ts'
import type { CallResult } from '../wire/master.ts'
import type { VoteOutcome } from '../../channel.ts'

/** A master that gave no answer to the question, and why. */
export interface FailedVote {
  readonly kind: 'failed'
  readonly reason: 'not-ready' | 'timeout' | 'closed' | 'error' | 'malformed' | 'unenrolled'
  readonly detail: string
  /** The script may have run, or may still run, on the master. */
  readonly mayHaveRun: boolean
}

/** Its clock jumped a while ago, so that it may have dropped leases early, or is out of line. */
export interface Suspended {
  readonly kind: 'suspended'
  readonly waitMs: number
}

export type AcquireVote =
  | FailedVote
  | { readonly kind: 'granted'; readonly counter: number }
  /** `at`: which of several resources, counted from 1. */
  | {
      readonly kind: 'taken'
      readonly holder: string
      readonly ttlMs: number
      readonly at?: number
    }
  | { readonly kind: 'quarantined'; readonly waitMs: number }
  | { readonly kind: 'skewed'; readonly aheadMs: number }
  | { readonly kind: 'abandoned' }
  | Suspended

export type ConfirmVote =
  FailedVote | { readonly kind: 'counter'; readonly counter: number } | { readonly kind: 'lost' }

export type ExtendVote =
  | FailedVote
  | { readonly kind: 'extended' }
  /**
   * It has the key, given back after it had lost its memory, and does not vote before its
   * quarantine is over.
   */
  | { readonly kind: 'healed' }
  | { readonly kind: 'missing' }
  | { readonly kind: 'lost'; readonly holder: string }
  | Suspended

export type HealVote =
  | FailedVote
  | { readonly kind: 'healed' }
  | { readonly kind: 'abandoned' }
  | { readonly kind: 'lost'; readonly holder: string }

export type ReleaseVote = FailedVote | { readonly kind: 'released' }

export type Vote = AcquireVote | ConfirmVote | ExtendVote | HealVote | ReleaseVote

/** The vote in one word, for metrics. */
export function outcomeOf(vote: Vote): VoteOutcome {
  return vote.kind === 'failed' ? vote.reason : vote.kind
}

type Fields = readonly unknown[]

/**
 * Turns a reply into a vote: the usual one, or a word and its fields. `parse` returns undefined for
 * a reply that it does not know.
 */
export function readVote<V extends Vote>(
  result: CallResult,
  usual: V,
  parse: (word: unknown, fields: Fields) => V | undefined,
): V | FailedVote {
  if (!result.ok) {
    const { reason, detail, mayHaveRun } = result
    return { kind: 'failed', reason, detail, mayHaveRun }
  }
  const { reply } = result
  if (reply === USUAL) return usual
  if (!Array.isArray(reply)) return malformed(reply)
  const [word, ...fields] = reply as unknown[]
  if (word === 'unenrolled') {
    const detail = 'the server restarted or lost its data since this connection enrolled it'
    return { kind: 'failed', reason: 'unenrolled', detail, mayHaveRun: false }
  }
  return parse(word, fields) ?? malformed(reply)
}

function malformed(reply: unknown): FailedVote {
  const detail = `unexpected reply ${JSON.stringify(reply)}`.slice(0, 200)
  return { kind: 'failed', reason: 'malformed', detail, mayHaveRun: true }
}

export const isCount = (value: unknown): value is number => Number.isSafeInteger(value)

/** The vote in words, for errors and logs. */
export function describeVote(vote: Vote | undefined): string {
  if (vote === undefined) return 'no answer yet'
  switch (vote.kind) {
    case 'failed':
      return vote.reason === 'error' ? vote.detail : `${vote.reason}: ${vote.detail}`
    case 'taken':
      return `taken by ${describeToken(vote.holder)} for ${vote.ttlMs} ms`
    case 'quarantined':
      return `new or restarted: grants nothing for another ${vote.waitMs} ms`
    case 'suspended':
      return `its clock jumped or differs from the others; not counted for another ${vote.waitMs} ms`
    case 'skewed':
      return `refused: this client's clock is ${vote.aheadMs} ms ahead of the master's`
    case 'lost':
      return 'holder' in vote && vote.holder !== ''
        ? `held by ${describeToken(vote.holder)}`
        : 'lost'
    default:
      return vote.kind
  }
}
