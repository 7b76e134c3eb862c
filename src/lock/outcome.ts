/** What became of an attempt. */
import type { RedlockError } from '../errors.ts'
import { QuorumUnreachableError, ResourceTakenError, SplitVoteError } from '../lock-errors.ts'
import type { MasterAnswer } from '../lock-errors.ts'
import type { Lease } from './lease.ts'

interface Refused {
  /** The one that is held, where it is known; else all that were asked for. */
  readonly resource: string
  /** What each master said. */
  readonly answers: readonly MasterAnswer[]
}

/** Another client holds a quorum: wait for its lease to end, at most `retryAfterMs`. */
export interface Taken extends Refused {
  readonly status: 'taken'
  /** The holder's `owner` and the beginning of its token. */
  readonly holder: string
  /** The longest time to live that a master reported. */
  readonly retryAfterMs: number
}

/** No client holds a quorum: retry soon, after a random delay. There is no holder to release it. */
export interface Split extends Refused {
  readonly status: 'split'
}

/** Too few masters can vote, or they took so long that the lease was over before it began. */
export interface Unreachable extends Refused {
  readonly status: 'unreachable'
  /** When enough quarantined masters vote again; 0 when that is not what is missing. */
  readonly retryAfterMs: number
  /** How many of the masters must vote. */
  readonly quorum: number
}

/** Why an attempt was not granted. */
export type NotGranted = Taken | Split | Unreachable
/** What became of an attempt. */
export type AcquireOutcome = { readonly status: 'granted'; readonly lease: Lease } | NotGranted

export function outcomeError(outcome: NotGranted): RedlockError {
  const { resource, answers } = outcome
  switch (outcome.status) {
    case 'taken':
      return new ResourceTakenError(resource, outcome.holder, outcome.retryAfterMs, answers)
    case 'split':
      return new SplitVoteError(resource, answers)
    case 'unreachable':
      return new QuorumUnreachableError(resource, outcome.quorum, outcome.retryAfterMs, answers)
  }
}
