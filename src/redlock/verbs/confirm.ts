/** Raises the counter to the largest one that a quorum granted, where the key is still mine. */
import { callOf, type Call, type Procedure } from '../wire/batch.ts'
import type { CallResult, Master } from '../wire/master.ts'
import type { LockFleet } from '../fleet/fleet.ts'
import type { Verb } from '../quorum/poll.ts'
import type { Attempt } from './attempt.ts'
import { isCount, readVote, type ConfirmVote } from './votes.ts'

/** `lua/confirm.lua` */
export const confirmProcedure: Procedure = { name: 'confirm' }

export class Confirm implements Verb<ConfirmVote> {
  readonly question = 'confirm'
  readonly timeoutMs: number
  readonly #call: Call
  readonly #fencingToken: number

  constructor(fleet: LockFleet, { resources, token }: Attempt, fencingToken: number) {
    this.timeoutMs = fleet.settings.masterTimeoutMs
    this.#fencingToken = fencingToken
    this.#call = callOf(confirmProcedure, [resources, token, String(fencingToken)])
  }

  ask(): Call {
    return this.#call
  }

  read(_master: Master, result: CallResult): ConfirmVote {
    return readVote<ConfirmVote>(result, (word, [first]) => {
      if (word === 'counter' && isCount(first)) return { kind: 'counter', counter: first }
      return word === 'lost' ? { kind: 'lost' } : undefined
    })
  }

  /** A counter beyond the fencing token belongs to a later grant. */
  isFor(vote: ConfirmVote): boolean {
    // rule: confirm-counts-the-exact-token
    return vote.kind === 'counter' && vote.counter === this.#fencingToken
  }
}
