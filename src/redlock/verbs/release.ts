/** Deletes the keys of an attempt on every master, whatever each of them answered before. */
import { sleep } from '../../clock.ts'
import { callOf, type Call, USUAL, type Procedure } from '../wire/batch.ts'
import { callMaster, type CallResult, type Master } from '../wire/master.ts'
import type { LockFleet } from '../fleet/fleet.ts'
import type { Verb } from '../quorum/poll.ts'
import type { Attempt } from './attempt.ts'
import { isCount, readVote, type ReleaseVote } from './votes.ts'

/** This many waiters are named when a resource is released, and may have it for a moment. */
const NAMED = 4
const TRIPS_PER_TURN = 4
/** Processes are held up now and then for longer than their trips take. */
const MIN_TURN_MS = 50

/**
 * How long a named waiter has to acquire, before the next one tries too, and any other client may.
 */
export function turnMs(roundTripMs: number): number {
  return Math.ceil(Math.max(MIN_TURN_MS, TRIPS_PER_TURN * roundTripMs))
}

/**
 * `tombstoneMs` is 0 for none. `graceMs` is how long the resource is reserved for the next waiters,
 * 0 for not at all. `waiter` is the name under which the holder may have waited; '' or left out
 * where it cannot have. Its place ends with its lease.
 * Returns  number of leases deleted
 * Keeps: only the holder's own keys are deleted, and before anything else: waiting is advice, and
 * what is wrong with it keeps no lease. With a tombstone, a grant or a heal for this token that
 * still travels is refused when it arrives. A release is announced only where a client waits: with
 * the beginning of the token, which tells one release from another, and the next waiters.
 */
export const releaseProcedure: Procedure = {
  name: 'release',
  parameters: ['resources', 'token', 'tombstoneMs', 'graceMs', 'waiter'],
  lua: `
if tombstoneMs > 0 then
  redis.call('SET', tombstoneKey(token), '1', 'PX', tombstoneMs)
  -- rule: tombstone-is-announced
  flag(tombstoneMs)
end
local mine, deleted = {}, 0
for _, resource in ipairs(resources) do
  mine[resource] = redis.call('GET', leaseKey(resource)) == token
  -- rule: release-only-my-key
  if mine[resource] then deleted = deleted + redis.call('DEL', leaseKey(resource)) end
end
if not flagged then return deleted end
local function first(waiters) return redis.call('ZRANGEBYSCORE', waiters, nowMs, '+inf', 'LIMIT', 0, ${NAMED}) end
for _, resource in ipairs(resources) do
  local key = waitersKey(resource)
  local waiters = mine[resource] and first(key)
  if waiter and waiter ~= '' and (not waiters or #waiters > 0) then
    redis.call('ZREM', key, waiter)
    waiters = waiters and first(key)
  end
  if waiters and #waiters > 0 then
    local named = table.concat(waiters, ',')
    if graceMs > 0 then
      redis.call('SET', nextKey(resource), named, 'PX', graceMs)
      flag(graceMs)
    end
    redis.call('PUBLISH', releasesChannel, string.sub(token, 1, 8) .. ' ' .. named .. ' ' .. resource)
  end
end
return deleted
`,
  short: {
    letter: 'R',
    parameters: ['resource', 'token', 'tombstoneMs', 'graceMs', 'waiter'],
    lua: `
    if flagged or tombstoneMs ~= '0' then
      return procedure('release')({resource}, token, tonumber(tombstoneMs), tonumber(graceMs), waiter)
    end
    local leaseKey = leasePrefix .. resource
    if call('GET', leaseKey) ~= token then return 0 end
    call('DEL', leaseKey)
    return true
`,
    usualReply: () => 1,
  },
}

/** A tombstone outlives every command of its attempt that may still travel. */
const TOMBSTONE_LEASES = 2
/** A release that a master did not confirm is repeated this often at most. */
const MAX_RELEASE_TRIES = 5
const RELEASE_RETRY_MS = 25

/** What is released, and what its holder knows of the masters. */
export interface ReleaseTerms {
  readonly attempt: Attempt
  /**
   * Whether a grant or a heal may still arrive at a master: then it refuses the token from now on.
   */
  readonly isUnsettled: (index: number) => boolean
  /** How long the resource is reserved for the next waiter. */
  readonly graceMs: number
  /** By what name the holder may have waited; '' for none. */
  readonly waiter: string
}

const RELEASED: ReleaseVote = { kind: 'released' }

/** A master that does not confirm is asked again in the background, for one lease at most. */
export class Release implements Verb<ReleaseVote> {
  readonly question = 'release'
  readonly timeoutMs: number
  readonly #fleet: LockFleet
  readonly #terms: ReleaseTerms
  readonly #call: Call
  #callForGood: Call | undefined

  constructor(fleet: LockFleet, terms: ReleaseTerms) {
    this.timeoutMs = fleet.settings.masterTimeoutMs
    this.#fleet = fleet
    this.#terms = terms
    this.#call = releaseCall(terms, 0)
  }

  ask(_master: Master, index: number): Call {
    // rule: release-on-every-master
    return this.#terms.isUnsettled(index) ? this.#forGood : this.#call
  }

  read(master: Master, result: CallResult): ReleaseVote {
    const vote = readReleaseVote(result)
    if (vote.kind === 'failed') {
      const { leaseMs } = this.#terms.attempt
      this.#fleet.inBackground(releaseLater(this.#fleet, master, this.#forGood, leaseMs))
    }
    return vote
  }

  isFor({ kind }: ReleaseVote): boolean {
    return kind === 'released'
  }

  get #forGood(): Call {
    const { maxLeaseMs } = this.#fleet.settings
    return (this.#callForGood ??= releaseCall(this.#terms, TOMBSTONE_LEASES * maxLeaseMs))
  }
}

function releaseCall({ attempt, graceMs, waiter }: ReleaseTerms, tombstoneMs: number): Call {
  return callOf(releaseProcedure, [attempt.resources, attempt.token, tombstoneMs, graceMs, waiter])
}

/** The key is gone at the latest when the lease would have ended, so that bounds the effort. */
async function releaseLater(
  fleet: LockFleet,
  master: Master,
  call: Call,
  leaseMs: number,
): Promise<void> {
  const { clock } = fleet.settings
  const until = clock.now() + leaseMs
  for (let tries = 0; tries < MAX_RELEASE_TRIES; tries++) {
    const leftMs = until - clock.now()
    if (leftMs <= 0 || !(await master.whenEnrolled(leftMs))) return
    const timeoutMs = Math.max(1, until - clock.now())
    const vote = readReleaseVote(await callMaster(master, clock, call, timeoutMs))
    if (vote.kind !== 'failed') return
    await sleep(clock, RELEASE_RETRY_MS)
  }
}

function readReleaseVote(result: CallResult): ReleaseVote {
  if (result.ok && (result.reply === USUAL || isCount(result.reply))) return RELEASED
  return readVote<ReleaseVote>(result, () => undefined)
}
