/** Gives the key back to one master that lost it, once a quorum has confirmed an extension. */
import { callOf, type Procedure } from '../wire/batch.ts'
import { callMaster, type CallResult, type Master } from '../wire/master.ts'
import type { LockFleet } from '../fleet/fleet.ts'
import type { Attempt } from './attempt.ts'
import { readVote, type HealVote } from './votes.ts'

/** `lua/heal.lua` */
export const healProcedure: Procedure = { name: 'heal' }

export async function heal(
  fleet: LockFleet,
  master: Master,
  { resources, token, leaseMs }: Attempt,
  counter: number,
): Promise<HealVote> {
  const { clock, masterTimeoutMs } = fleet.settings
  const call = callOf(healProcedure, [resources, token, leaseMs, String(counter)])
  const vote = readHealVote(await callMaster(master, clock, call, masterTimeoutMs))
  fleet.voted(master, 'heal', vote)
  return vote
}

function readHealVote(result: CallResult): HealVote {
  return readVote<HealVote>(result, (word, [first]) => {
    if (word === 'healed' || word === 'abandoned') return { kind: word }
    return word === 'lost' ? { kind: 'lost', holder: String(first) } : undefined
  })
}
