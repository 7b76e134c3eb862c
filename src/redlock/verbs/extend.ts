/** Asks every master to keep the lease for its full length again. */
import { callOf, type Call, USUAL, type Procedure } from '../wire/batch.ts'
import type { CallResult, Master } from '../wire/master.ts'
import type { LockFleet } from '../fleet/fleet.ts'
import type { Verb } from '../quorum/poll.ts'
import type { Attempt } from './attempt.ts'
import { readVote, type ExtendVote } from './votes.ts'

/**
 * Returns  extended | healed | missing | lost, token that holds it or '' | unenrolled
 * Keeps: a lease is never made shorter (GT), and is not extended where a later grant was made.
 * `healed` is no vote: the key is kept alive, but it was restored within the quarantine that is
 * still on.
 */
export const extendProcedure: Procedure = {
  name: 'extend',
  parameters: ['resources', 'token', 'leaseMs', 'fence'],
  lua: `
if not enrolled then return {'unenrolled'} end
local missing = false
for _, resource in ipairs(resources) do
  local holder = redis.call('GET', leaseKey(resource))
  local counter = tonumber(redis.call('GET', fenceKey(resource)) or '0')
  -- rule: extend-only-without-a-later-grant
  if counter > tonumber(fence) then return {'lost', holder or ''} end
  -- rule: extend-only-my-key
  if holder and holder ~= token then return {'lost', holder} end
  if not holder then missing = true end
end
-- rule: extend-creates-no-key
if missing then return {'missing'} end
for _, resource in ipairs(resources) do
  -- rule: extension-never-shortens
  redis.call('PEXPIRE', leaseKey(resource), leaseMs, 'GT')
  redis.call('SET', fenceKey(resource), fence, 'PX', fenceTtlMs)
end
-- rule: healed-key-does-not-extend
if quarantineMs > 0 and flagged and redis.call('PEXPIRE', tombstoneKey(token), 2 * maxLeaseMs) == 1 then
  flag(2 * maxLeaseMs)
  return {'healed'}
end
return {'extended'}
`,
  short: {
    letter: 'E',
    parameters: ['resource', 'token', 'leaseMs', 'fence'],
    lua: `
    if not nowMs then readRecord() end
    local leaseKey, fenceKey = leasePrefix .. resource, fencePrefix .. resource
    -- rule: short-extend-in-usual-cases
    if not enrolled or flagged or call('GET', leaseKey) ~= token
      or tonumber(call('GET', fenceKey) or '0') > tonumber(fence) then
      return procedure('extend')({resource}, token, leaseMs, fence)
    end
    call('PEXPIRE', leaseKey, leaseMs, 'GT')
    call('SET', fenceKey, fence, 'PX', fenceTtlMs)
    return true
`,
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
