/**
 * What the masters are asked about an attempt, how an answer reads, and which vote counts. A reply
 * that no verb knows is no vote. Pure. Each verb is a file in `lua/`.
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

/** Its clock jumped a while ago, so that it may have dropped leases early, or is out of line. */
export interface Suspended {
  readonly kind: 'suspended'
  readonly waitMs: number
}

/** A token of another lease has the resource, or a later grant was made. */
interface Lost {
  readonly kind: 'lost'
  readonly holder?: string
}

export type AcquireVote =
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
  | { readonly kind: 'skewed'; readonly aheadMs: number }
  | { readonly kind: 'abandoned' }
  | Suspended

export type ConfirmVote = Failed | { readonly kind: 'counter' } | Lost

export type ExtendVote =
  | Failed
  | { readonly kind: 'extended' }
  /** It was given the key back after it had lost its memory: no vote within its quarantine. */
  | { readonly kind: 'healed' }
  | { readonly kind: 'missing' }
  | Lost
  | Suspended

export type HealVote = Failed | { readonly kind: 'healed' } | { readonly kind: 'abandoned' } | Lost

export type ReleaseVote = Failed | { readonly kind: 'released' }

export type Vote = AcquireVote | ConfirmVote | ExtendVote | HealVote | ReleaseVote

export interface Verb<V extends Vote> {
  readonly question: Question
  /** The vote of the usual reply. Only votes of this kind count. */
  readonly usual: V
  /** Of another reply: a word and its fields. Undefined for one that it does not know. */
  parse(word: unknown, fields: readonly unknown[], about: About): V | undefined
}

/** What a verb must know of an attempt to read what a master says of it. */
export type About = Pick<Attempt, 'fencingToken' | 'maxLeaseMs'>

export const acquire: Verb<AcquireVote> = {
  question: 'acquire',
  usual: { kind: 'granted' },
  parse(word, [first, second, third], { maxLeaseMs }) {
    if (word === 'granted' && isCount(first)) return { kind: 'granted', counter: first }
    if (word === 'taken' && typeof first === 'string' && isCount(second)) {
      // No lease lasts longer, whatever a master says whose clock was set back.
      const taken = { kind: 'taken', holder: first, ttlMs: Math.min(second, maxLeaseMs) } as const
      return isCount(third) ? { ...taken, at: third } : taken
    }
    if (word === 'quarantined' && isCount(first)) return { kind: 'quarantined', waitMs: first }
    if (word === 'skewed' && isCount(first)) return { kind: 'skewed', aheadMs: first }
    return word === 'abandoned' ? { kind: 'abandoned' } : undefined
  },
}

/** Raises the counter to the largest one that a quorum granted, where the key is still mine. */
export const confirm: Verb<ConfirmVote> = {
  question: 'confirm',
  usual: { kind: 'counter' },
  parse(word, [first], { fencingToken }) {
    // A counter beyond the fencing token belongs to a later grant.
    // rule: confirm-counts-the-exact-token
    if (word === 'counter' && isCount(first))
      return { kind: first === fencingToken ? 'counter' : 'lost' }
    return word === 'lost' ? { kind: 'lost' } : undefined
  },
}

export const extend: Verb<ExtendVote> = {
  question: 'extend',
  usual: { kind: 'extended' },
  parse(word, [first]) {
    if (word === 'healed' || word === 'missing') return { kind: word }
    return word === 'lost' ? { kind: 'lost', holder: String(first) } : undefined
  },
}

/** Gives the key back to a master that lost it, once a quorum has confirmed an extension. */
export const heal: Verb<HealVote> = {
  question: 'heal',
  usual: { kind: 'healed' },
  parse(word, [first]) {
    if (word === 'abandoned') return { kind: word }
    return word === 'lost' ? { kind: 'lost', holder: String(first) } : undefined
  },
}

/** Deletes the keys of an attempt, whatever the master answered before. */
export const release: Verb<ReleaseVote> = {
  question: 'release',
  usual: { kind: 'released' },
  parse: (word, [first]) =>
    word === 'released' && isCount(first) ? { kind: 'released' } : undefined,
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
      if (vote === ASKED) return vote.detail
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
      return vote.holder ? `held by ${describeToken(vote.holder)}` : 'lost'
    default:
      return vote.kind
  }
}
