/** Asks every master to grant resources to a token that it has not seen before. */
import type { Clock } from '../../clock.ts'
import { callOf, type Call, USUAL, type Procedure } from '../wire/batch.ts'
import type { CallResult, Master } from '../wire/master.ts'
import type { LockFleet } from '../fleet/fleet.ts'
import { RESERVED } from '../quorum/quorum.ts'
import type { Verb } from '../quorum/poll.ts'
import type { Attempt } from './attempt.ts'
import { isCount, readVote, type AcquireVote } from './votes.ts'

/**
 * A grant's counter is so far past every earlier one that the lease can be passed on this often
 * under its own fencing token.
 */
export const TOKENS_PER_GRANT = 64

/**
 * `proposal` is in µs. `waitMs` is how long the caller goes on waiting under the name `waiter` when
 * it is not granted; 0 and '' if it does not.
 * Returns  counter, when granted | taken, holder's token, its PTTL ms | quarantined, ms to go
 *          | skewed, ms the proposal is ahead | abandoned | unenrolled
 * Keeps: all resources or none. The counter of a resource grows by `TOKENS_PER_GRANT` at least with
 * every grant to a new token. A repeated call for the holder's own token grants again with the same
 * counter and does not lengthen the lease. A caller that goes on waiting gets its place in the same
 * call, so that no release can slip in between. Places are in the order of arrival plus patience,
 * `waitMs`, of which no more than the longest lease counts. No key of a holder outlasts the longest
 * lease, also where the server's clock was set back. A counter that has expired was below
 * `earliestUs`, so no token is smaller than one that was forgotten.
 */
export const acquireProcedure: Procedure = {
  name: 'acquire',
  parameters: ['resources', 'token', 'leaseMs', 'proposal', 'waitMs', 'waiter'],
  lua: `
-- rule: unenrolled-grants-nothing
if not enrolled then return {'unenrolled'} end
-- rule: quarantined-grants-nothing
if quarantineMs > 0 then return {'quarantined', quarantineMs} end
local aheadMs = tonumber(proposal) / 1000 - nowMs
-- rule: proposal-far-ahead-is-refused
if aheadMs > tonumber(maxClockSkewMs) then return {'skewed', math.ceil(aheadMs)} end
local reserved = false
if flagged then
  local refusals = {tombstoneKey(token)}
  for _, resource in ipairs(resources) do refusals[#refusals + 1] = nextKey(resource) end
  reserved = redis.call('EXISTS', unpack(refusals)) > 0
  -- rule: abandoned-token-is-refused
  if reserved and redis.call('EXISTS', tombstoneKey(token)) == 1 then return {'abandoned'} end
end
local function refuse(resource, holder, holderKey)
  if waitMs > 0 then
    local waiters, keptMs = waitersKey(resource), math.min(waitMs, tonumber(maxLeaseMs))
    redis.call('ZREMRANGEBYSCORE', waiters, '-inf', nowMs)
    redis.call('ZADD', waiters, 'NX', nowMs + keptMs, waiter)
    if keptMs > redis.call('PTTL', waiters) then redis.call('PEXPIRE', waiters, keptMs) end
    flag(keptMs)
  end
  if redis.call('PTTL', holderKey) > tonumber(maxLeaseMs) then redis.call('PEXPIRE', holderKey, maxLeaseMs) end
  return {'taken', holder, redis.call('PTTL', holderKey)}
end
local counter, mine = 0, true
for _, resource in ipairs(resources) do
  local holder = redis.call('GET', leaseKey(resource))
  -- rule: held-resource-is-not-granted
  if holder and holder ~= token then return refuse(resource, holder, leaseKey(resource)) end
  local named = reserved and not holder and redis.call('GET', nextKey(resource))
  if named and (waiter == '' or not string.find(named, waiter, 1, true)) then
    return refuse(resource, '${RESERVED}', nextKey(resource))
  end
  if holder ~= token then mine = false end
  counter = math.max(counter, tonumber(redis.call('GET', fenceKey(resource)) or '0'))
end
if mine then return counter end
-- rule: token-above-forgotten-ones
counter = math.max(counter, earliestUs)
local fence = proposal
-- rule: counter-grows-with-every-grant
if counter + ${TOKENS_PER_GRANT} > tonumber(proposal) then fence = string.format('%.0f', counter + ${TOKENS_PER_GRANT}) end
for _, resource in ipairs(resources) do
  redis.call('SET', leaseKey(resource), token, 'PX', leaseMs)
  redis.call('SET', fenceKey(resource), fence, 'PX', fenceTtlMs)
  if reserved then redis.call('DEL', nextKey(resource)) end
end
return tonumber(fence)
`,
  short: {
    letter: 'A',
    parameters: ['resource', 'token', 'leaseMs', 'proposal', 'waitMs', 'waiter'],
    lua: `
    if not nowMs then readRecord() end
    local proposed = tonumber(proposal)
    local leaseKey, fenceKey = leasePrefix .. resource, fencePrefix .. resource
    -- rule: short-acquire-in-usual-cases
    if not grants or flagged or proposed > latestUs or proposed < earliestUs
      or call('SET', leaseKey, token, 'NX', 'PX', leaseMs, 'GET') then
      return procedure('acquire')({resource}, token, leaseMs, proposal, tonumber(waitMs), waiter)
    end
    local ok, counter = pcall(call, 'SET', fenceKey, proposal, 'PX', fenceTtlMs, 'GET')
    if not ok then
      call('DEL', leaseKey)
      error(counter)
    end
    local least = tonumber(counter or '0') + ${TOKENS_PER_GRANT}
    if least <= proposed then return true end
    call('SET', fenceKey, string.format('%.0f', least), 'PX', fenceTtlMs)
    return least
`,
    usualReply: ([, , , proposal]) => Number(proposal),
  },
}

const NOT_SENT: CallResult = {
  ok: false,
  reason: 'not-ready',
  detail: 'its clock jumped',
  mayHaveRun: false,
}

export class Acquire implements Verb<AcquireVote> {
  readonly question = 'acquire'
  readonly timeoutMs: number
  /** The largest counter that a master granted, and how many granted exactly it. */
  counter = 0
  atCounter = 0
  readonly #fleet: LockFleet
  readonly #call: Call
  readonly #granted: AcquireVote

  constructor(fleet: LockFleet, attempt: Attempt, proposal: number) {
    const { resources, token, leaseMs, waitMs, waiter } = attempt
    // An answer that comes after the lease would be over is none.
    this.timeoutMs = Math.min(fleet.settings.masterTimeoutMs, leaseMs)
    this.#fleet = fleet
    const args = [resources, token, leaseMs, String(proposal), waitMs, waiter]
    this.#call = callOf(acquireProcedure, args)
    this.#granted = { kind: 'granted', counter: proposal }
  }

  ask(master: Master): Call | CallResult {
    return this.#fleet.clocks.suspendedMs(master) > 0 ? NOT_SENT : this.#call
  }

  read(master: Master, result: CallResult): AcquireVote {
    // This very reply may have shown that the master's clock jumped.
    const waitMs = this.#fleet.clocks.suspendedMs(master)
    // rule: suspended-master-grants-nothing
    if (waitMs > 0) return { kind: 'suspended', waitMs }
    const vote =
      result.ok && result.reply === USUAL
        ? this.#granted
        : readAcquireVote(result, this.#fleet.settings.maxLeaseMs)
    if (vote.kind === 'granted') {
      if (vote.counter > this.counter) this.atCounter = 0
      this.counter = Math.max(this.counter, vote.counter)
      if (vote.counter === this.counter) this.atCounter++
    }
    return vote
  }

  isFor({ kind }: AcquireVote): boolean {
    return kind === 'granted'
  }
}

/** No lease lasts longer than `maxLeaseMs`, whatever a master says whose clock was set back. */
function readAcquireVote(result: CallResult, maxLeaseMs: number): AcquireVote {
  if (result.ok && isCount(result.reply)) return { kind: 'granted', counter: result.reply }
  return readVote<AcquireVote>(result, (word, [first, second]) => {
    if (word === 'taken' && typeof first === 'string' && isCount(second)) {
      return { kind: 'taken', holder: first, ttlMs: Math.min(second, maxLeaseMs) }
    }
    if (word === 'quarantined' && isCount(first)) return { kind: 'quarantined', waitMs: first }
    if (word === 'skewed' && isCount(first)) return { kind: 'skewed', aheadMs: first }
    return word === 'abandoned' ? { kind: 'abandoned' } : undefined
  })
}

/**
 * The fencing token that a client proposes: a hybrid logical clock in microseconds, at least the
 * wall clock and past every counter this client has seen. It keeps tokens increasing when a master
 * lost its counters. Exact in a double until the year 2255.
 *
 * A counter far ahead of our clock comes from a clock that is or was wrong: another client's, or
 * our own before it was set right. It is not followed, because masters refuse proposals that are
 * `maxClockSkewMs` ahead of their clock: one such counter would keep this client from every other
 * resource.
 */
export class ProposalClock {
  readonly #clock: Clock
  readonly #maxAheadUs: number
  #seen = 0

  constructor(clock: Clock, maxClockSkewMs: number) {
    this.#clock = clock
    this.#maxAheadUs = (maxClockSkewMs * 1000) / 2
  }

  next(): number {
    const wallUs = Math.floor(this.#clock.wallNow() * 1000)
    if (this.#seen > wallUs + this.#maxAheadUs) this.#seen = 0
    this.#seen = Math.max(wallUs, this.#seen + 1)
    return this.#seen
  }

  observe(counter: number): void {
    const isAhead = counter > this.#clock.wallNow() * 1000 + this.#maxAheadUs
    if (!isAhead && counter > this.#seen) this.#seen = counter
  }
}
