/** Raises the counter to the largest one that a quorum granted, where the key is still mine. */
import { callOf, type Call, type Procedure } from '../wire/batch.ts'
import type { CallResult, Master } from '../wire/master.ts'
import type { LockFleet } from '../fleet/fleet.ts'
import type { Verb } from '../quorum/poll.ts'
import type { Attempt } from './attempt.ts'
import { isCount, readVote, type ConfirmVote } from './votes.ts'

/**
 * Returns  counter, highest value after the write | lost | unenrolled
 * Keeps: a counter is raised only for the token that holds every one of the leases.
 */
export const confirmProcedure: Procedure = {
  name: 'confirm',
  parameters: ['resources', 'token', 'fence'],
  lua: `
if not enrolled then return {'unenrolled'} end
for _, resource in ipairs(resources) do
  -- rule: confirm-only-my-key
  if redis.call('GET', leaseKey(resource)) ~= token then return {'lost'} end
end
local highest = 0
for _, resource in ipairs(resources) do
  local counter = math.max(tonumber(redis.call('GET', fenceKey(resource)) or '0'), tonumber(fence))
  redis.call('SET', fenceKey(resource), string.format('%.0f', counter), 'PX', fenceTtlMs)
  highest = math.max(highest, counter)
end
return {'counter', highest}
`,
}

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
