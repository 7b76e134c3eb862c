/** Asks every master to keep the lease for its full length again. */
import { callOf, type Call, USUAL, type Procedure } from '../wire/batch.ts'
import type { CallResult, Master } from '../wire/master.ts'
import type { LockFleet } from '../fleet/fleet.ts'
import type { Verb } from '../quorum/poll.ts'
import type { Attempt } from './attempt.ts'
import { readVote, type ExtendVote } from './votes.ts'

/** `lua/extend.lua`, and `lua/extend-usual.lua` for a usual call. */
export const extendProcedure: Procedure = {
  name: 'extend',
  short: {
    letter: 'E',
    parameters: 4,
    usualReply: () => ['extended'],
  },
}

const EXTENDED: ExtendVote = { kind: 'extended' }
const SUSPENDED: ExtendVote = { kind: 'suspended' }

export class Extend implements Verb<ExtendVote> {
  readonly question = 'extend'
  readonly timeoutMs: number
  readonly #call: Call

  readonly #fleet: LockFleet

  constructor(
    fleet: LockFleet,
    { resources, token, leaseMs }: Attempt,
    counter: number,
    timeoutMs: number,
  ) {
    this.#fleet = fleet
    this.timeoutMs = timeoutMs
    this.#call = callOf(extendProcedure, [resources, token, leaseMs, String(counter)])
  }

  ask(): Call {
    return this.#call
  }

  read(master: Master, result: CallResult): ExtendVote {
    const vote = this.#read(result)
    // rule: master-out-of-line-extends-nothing
    return vote.kind === 'extended' && this.#fleet.clocks.isOutOfLine(master) ? SUSPENDED : vote
  }

  isFor({ kind }: ExtendVote): boolean {
    return kind === 'extended'
  }

  #read(result: CallResult): ExtendVote {
    if (result.ok && result.reply === USUAL) return EXTENDED
    return readVote<ExtendVote>(result, (word, [first]) => {
      if (word === 'extended' || word === 'healed' || word === 'missing') return { kind: word }
      return word === 'lost' ? { kind: 'lost', holder: String(first) } : undefined
    })
  }
}
