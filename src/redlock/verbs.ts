/**
 * What the masters are asked about an attempt, and how an answer reads as a vote. A reply with a
 * word that is not known is none. Pure. Each verb is a file in `lua/`.
 */
import { luaConstant } from '../lua.ts'
import type { Question } from '../facts.ts'
import { describeToken } from '../names.ts'
import type { Attempt } from './attempt.ts'
import { callOf, type Call } from './wire/calls.ts'
import { failed, type Failed } from './wire/master.ts'

/** A grant's counter is so far past every earlier one that the lease has this many of its own. */
export const TOKENS_PER_GRANT: number = Number(
  luaConstant('redlock/lua/acquire', 'TOKENS_PER_GRANT'),
)

export type Vote =
  | Failed
  /** Without a counter: it stores the proposal. */
  | { readonly kind: 'granted'; readonly counter?: number }
  /** `at`: which of several resources, counted from 1. */
  | {
      readonly kind: 'taken'
      readonly holder: string
      readonly ttlMs: number
      readonly at?: number
    }
  | { readonly kind: 'quarantined'; readonly waitMs: number }
  /** Its clock jumped a while ago, so that it may have dropped leases early, or is out of line. */
  | { readonly kind: 'suspended'; readonly waitMs: number }
  | { readonly kind: 'skewed'; readonly aheadMs: number }
  /** A token of another lease has the resource, or a later grant was made. */
  | { readonly kind: 'lost'; readonly holder?: string | undefined }
  /**
   * `counter`: it is the fencing token. `healed`: the master has the key again that it had lost; in
   * place of an extension this is no vote, within its quarantine.
   */
  | { readonly kind: 'counter' | 'extended' | 'healed' | 'missing' | 'released' | 'abandoned' }

/** What a usual reply says to each question. Only votes of this kind count for it. */
export const USUAL_VOTES: Readonly<Record<Question, Vote>> = {
  acquire: { kind: 'granted' },
  confirm: { kind: 'counter' },
  extend: { kind: 'extended' },
  heal: { kind: 'healed' },
  release: { kind: 'released' },
}

/** What must be known of an attempt to read what a master says of it. */
export type About = Pick<Attempt, 'fencingToken' | 'maxLeaseMs'>

/** What an unusual reply says; undefined for what no verb says. */
export function readReply(
  [word, first, second, third]: readonly unknown[],
  { fencingToken, maxLeaseMs }: About,
): Vote | undefined {
  switch (word) {
    case 'granted':
      return isCount(first) ? { kind: word, counter: first } : undefined
    case 'taken': {
      if (typeof first !== 'string' || !isCount(second)) return undefined
      // No lease lasts longer, whatever a master says whose clock was set back.
      const taken = { kind: word, holder: first, ttlMs: Math.min(second, maxLeaseMs) } as const
      return isCount(third) ? { ...taken, at: third } : taken
    }
    case 'quarantined':
      return isCount(first) ? { kind: word, waitMs: first } : undefined
    case 'skewed':
      return isCount(first) ? { kind: word, aheadMs: first } : undefined
    case 'counter':
      // A counter beyond the fencing token belongs to a later grant.
      // rule: confirm-counts-the-exact-token
      return isCount(first) ? { kind: first === fencingToken ? word : 'lost' } : undefined
    case 'lost':
      return { kind: word, holder: typeof first === 'string' ? first : undefined }
    case 'abandoned':
    case 'healed':
    case 'missing':
      return { kind: word }
    case 'unenrolled': {
      const detail = 'the server restarted or lost its data since this connection enrolled it'
      return failed(word, detail, false)
    }
  }
  return undefined
}

/** Changes nothing. The master's clock is known by its reply. */
export const ASKS_THE_TIME: Call = callOf({ verb: 'inspect' })

/** The vote of a master that was asked, until it answers. */
export const ASKED: Failed = failed('timeout', 'no answer yet', true)

const isCount = (value: unknown): value is number => Number.isSafeInteger(value)

/** The vote in words, for errors and logs. */
export function describeVote(vote: Vote | undefined): string {
  if (vote === undefined) return ASKED.detail
  switch (vote.kind) {
    case 'failed':
      if (vote === ASKED || vote.reason === 'error') return vote.detail
      return `${vote.reason}: ${vote.detail}`
    case 'taken':
      return `taken by ${describeToken(vote.holder)} for ${vote.ttlMs} ms`
    case 'quarantined':
      return `new or restarted: grants nothing for another ${vote.waitMs} ms`
    case 'suspended':
      return 'not counted: its clock jumped, or agrees with no quorum of those that have answered'
    case 'skewed':
      return `refused: this client's clock is ${vote.aheadMs} ms ahead of the master's`
    case 'lost':
      return vote.holder ? `held by ${describeToken(vote.holder)}` : 'lost'
    default:
      return vote.kind
  }
}
