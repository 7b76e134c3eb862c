/**
 * What the masters are asked about an attempt, how an answer reads, and which vote counts. Pure.
 * Each verb is a file in `lua/`.
 */
import { luaConstant } from '../../lua.ts'
import type { Question } from '../../channel.ts'
import type { Attempt } from '../attempt.ts'
import { callOf, type Call } from '../wire/batch.ts'
import type { CallResult } from '../wire/master.ts'
import {
  isCount,
  readVote,
  type AcquireVote,
  type ConfirmVote,
  type ExtendVote,
  type HealVote,
  type ReleaseVote,
  type Vote,
} from './votes.ts'

/**
 * A grant's counter is so far past every earlier one that the lease can be passed on this often
 * under its own fencing token.
 */
export const TOKENS_PER_GRANT: number = Number(
  luaConstant('redlock/lua/record', 'TOKENS_PER_GRANT'),
)

/** None of these may throw. */
export interface Verb<V extends Vote> {
  readonly question: Question
  read(result: CallResult, about: About): V
  isFor(vote: V, about: About): boolean
}

/** What a verb must know of an attempt to read what a master says of it. */
export type About = Pick<Attempt, 'fence' | 'granted' | 'maxLeaseMs'>

export const acquire: Verb<AcquireVote> = {
  question: 'acquire',
  read: (result, { granted, maxLeaseMs }) =>
    readVote<AcquireVote>(result, granted, (word, [first, second, third]) => {
      if (word === 'granted' && isCount(first)) return { kind: 'granted', counter: first }
      if (word === 'taken' && typeof first === 'string' && isCount(second)) {
        // No lease lasts longer, whatever a master says whose clock was set back.
        const ttlMs = Math.min(second, maxLeaseMs)
        const taken = { kind: 'taken', holder: first, ttlMs } as const
        return isCount(third) ? { ...taken, at: third } : taken
      }
      if (word === 'quarantined' && isCount(first)) return { kind: 'quarantined', waitMs: first }
      if (word === 'skewed' && isCount(first)) return { kind: 'skewed', aheadMs: first }
      return word === 'abandoned' ? { kind: 'abandoned' } : undefined
    }),
  isFor: ({ kind }) => kind === 'granted',
}

/** Raises the counter to the largest one that a quorum granted, where the key is still mine. */
export const confirm: Verb<ConfirmVote> = {
  question: 'confirm',
  read: (result, { fence }) =>
    readVote<ConfirmVote>(result, { kind: 'counter', counter: fence }, (word, [first]) => {
      if (word === 'counter' && isCount(first)) return { kind: 'counter', counter: first }
      return word === 'lost' ? { kind: 'lost' } : undefined
    }),
  // A counter beyond the fencing token belongs to a later grant.
  // rule: confirm-counts-the-exact-token
  isFor: (vote, { fence }) => vote.kind === 'counter' && vote.counter === fence,
}

const EXTENDED: ExtendVote = { kind: 'extended' }

export const extend: Verb<ExtendVote> = {
  question: 'extend',
  read: (result) =>
    readVote<ExtendVote>(result, EXTENDED, (word, [first]) => {
      if (word === 'healed' || word === 'missing') return { kind: word }
      return word === 'lost' ? { kind: 'lost', holder: String(first) } : undefined
    }),
  isFor: ({ kind }) => kind === 'extended',
}

const HEALED: HealVote = { kind: 'healed' }

/** Gives the key back to a master that lost it, once a quorum has confirmed an extension. */
export const heal: Verb<HealVote> = {
  question: 'heal',
  read: (result) =>
    readVote<HealVote>(result, HEALED, (word, [first]) => {
      if (word === 'abandoned') return { kind: word }
      return word === 'lost' ? { kind: 'lost', holder: String(first) } : undefined
    }),
  isFor: ({ kind }) => kind === 'healed',
}

const RELEASED: ReleaseVote = { kind: 'released' }

/** Deletes the keys of an attempt, whatever the master answered before. */
export const release: Verb<ReleaseVote> = {
  question: 'release',
  read: (result) =>
    readVote<ReleaseVote>(result, RELEASED, (word, [first]) =>
      word === 'released' && isCount(first) ? RELEASED : undefined,
    ),
  isFor: ({ kind }) => kind === 'released',
}

/** Changes nothing. The master's clock is known by its reply. */
export const ASKS_THE_TIME: Call = callOf({ verb: 'inspect' })
