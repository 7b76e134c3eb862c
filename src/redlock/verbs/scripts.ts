/**
 * What a master does, as Lua. Each procedure runs atomically on one server and is safe to run twice; `src/redis/batch.ts` carries it there.
 *
 * Common to all: a reply is an array that begins with a word, or of the usual outcome a bare number, which costs a tenth less. `TIME` is read once for a batch (it moves inside
 * a script before Redis 7.2) and reported, so that clients notice a clock that jumps. Counters travel as strings and are
 * written with `%.0f`, because Lua's `tostring` loses the last digits of a microsecond count. `unenrolled` means that this server is not, or no longer, the
 * one that the caller's connection enrolled: it restarted, lost its data, or serves another fleet.
 */
import { defineProcedure, type Library, type Procedure } from '../../redis/batch.ts'
import { defineScript, type Script } from '../../redis/script.ts'
import { luaKeys } from '../keyspace.ts'
import { RESERVED } from './votes.ts'

/**
 * No procedure of a batch changes what is read here, except for `rare`: whether there may be waiters, reservations or tombstones. While there
 * are none, nobody looks for them, which saves a quarter of what a lease costs. Whoever has written one says how long it lives.
 */
const PRELUDE = `
local namespace, maxLeaseMs, fenceTtlMs, maxClockSkewMs, fleetSize = unpack(standing)
${luaKeys}
local time = redis.call('TIME')
local nowMs = time[1] * 1000 + math.floor(time[2] / 1000)
local record = redis.call('HMGET', masterKey, 'runId', 'maxLeaseMs', 'votesFromMs', 'fleetSize')
local enrolled = record[1] == runId and record[2] == maxLeaseMs and record[4] == fleetSize
local quarantineMs = tonumber(record[3] or '0') - nowMs
local rare = redis.call('EXISTS', rareKey) == 1
local function keepRare(forMs)
  rare = true
  if forMs > redis.call('PTTL', rareKey) then redis.call('SET', rareKey, '1', 'PX', forMs) end
end
`

/** A grant's counter is so far past every earlier one that a lease can be passed on this often under a fencing token of its own. */
export const TOKENS_PER_GRANT = 64
/** So many waiters are named when a resource is released, and may have it for a moment. */
const NAMED = 4

/**
 * `proposal` is in µs. `waitMs` is how long the caller goes on waiting under the name `waiter` when it is not granted; 0 and '' if
 * it does not. `predecessor` is the token to take over from and `itsFence` the counter it was granted; left out where there is none.
 * Returns  counter, when granted | taken, holder's token, its PTTL ms | quarantined, ms to go
 *          | skewed, ms the proposal is ahead | abandoned | unenrolled
 * Keeps: all resources or none. The counter of a resource grows by `TOKENS_PER_GRANT` at least with every grant to a new token. A repeated
 * call for the holder's own token grants again with the same counter and does not lengthen the lease. A lease is
 * taken over only from the token that gave it up, and only where nobody was granted after it. A caller that goes on
 * waiting gets its place in the same breath, so that no release can slip in between. Places are in the order of arrival plus
 * patience, `waitMs`, of which no more than the longest lease counts.
 */
export const acquireProcedure: Procedure = defineProcedure(
  'acquire',
  ['resources', 'token', 'leaseMs', 'proposal', 'waitMs', 'waiter', 'predecessor', 'itsFence'],
  `
if not enrolled then return {'unenrolled'} end
if quarantineMs > 0 then return {'quarantined', quarantineMs} end
local aheadMs = tonumber(proposal) / 1000 - nowMs
if aheadMs > tonumber(maxClockSkewMs) then return {'skewed', math.ceil(aheadMs)} end
local reserved = false
if rare then
  local refusals = {tombstoneKey(token)}
  for _, resource in ipairs(resources) do refusals[#refusals + 1] = nextKey(resource) end
  reserved = redis.call('EXISTS', unpack(refusals)) > 0
  if reserved and redis.call('EXISTS', tombstoneKey(token)) == 1 then return {'abandoned'} end
end
local function refuse(resource, holder, holderKey)
  if waitMs > 0 then
    local waiters = waitersKey(resource)
    redis.call('ZREMRANGEBYSCORE', waiters, '-inf', nowMs)
    redis.call('ZADD', waiters, 'NX', nowMs + math.min(waitMs, tonumber(maxLeaseMs)), waiter)
    if waitMs > redis.call('PTTL', waiters) then redis.call('PEXPIRE', waiters, waitMs) end
    keepRare(waitMs)
  end
  return {'taken', holder, redis.call('PTTL', holderKey)}
end
local counter, mine = 0, true
for _, resource in ipairs(resources) do
  local holder = redis.call('GET', leaseKey(resource))
  local count = tonumber(redis.call('GET', fenceKey(resource)) or '0')
  local free = not holder or holder == token
    or (holder == predecessor and count <= tonumber(itsFence))
  if not free then return refuse(resource, holder, leaseKey(resource)) end
  local named = reserved and not holder and redis.call('GET', nextKey(resource))
  if named and (waiter == '' or not string.find(named, waiter, 1, true)) then
    return refuse(resource, '${RESERVED}', nextKey(resource))
  end
  if holder ~= token then mine = false end
  counter = math.max(counter, count)
end
if mine then return counter end
local fence = proposal
if counter + ${TOKENS_PER_GRANT} > tonumber(proposal) then fence = string.format('%.0f', counter + ${TOKENS_PER_GRANT}) end
for _, resource in ipairs(resources) do
  redis.call('SET', leaseKey(resource), token, 'PX', leaseMs)
  redis.call('SET', fenceKey(resource), fence, 'PX', fenceTtlMs)
  if reserved then redis.call('DEL', nextKey(resource)) end
end
return tonumber(fence)
`,
)

/**
 * Returns  counter, highest value after the write | lost | unenrolled
 * Keeps: a counter is raised only for the token that holds every one of the leases. The caller counts the
 * master only if the value *equals* its fencing token: a counter beyond it belongs to a later grant.
 */
export const confirmProcedure: Procedure = defineProcedure(
  'confirm',
  ['resources', 'token', 'fence'],
  `
if not enrolled then return {'unenrolled'} end
for _, resource in ipairs(resources) do
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
)

/**
 * Returns  extended | healed | missing | lost, token that holds it or '' | unenrolled
 * Keeps: a lease is never made shorter (GT), and is not extended where anyone was granted since. `healed` is no
 * vote: the key is kept alive, but it was given back within the quarantine that is still on.
 */
export const extendProcedure: Procedure = defineProcedure(
  'extend',
  ['resources', 'token', 'leaseMs', 'fence'],
  `
if not enrolled then return {'unenrolled'} end
local missing = false
for _, resource in ipairs(resources) do
  local holder = redis.call('GET', leaseKey(resource))
  local counter = tonumber(redis.call('GET', fenceKey(resource)) or '0')
  if counter > tonumber(fence) then return {'lost', holder or ''} end
  if holder and holder ~= token then return {'lost', holder} end
  if not holder then missing = true end
end
if missing then return {'missing'} end
for _, resource in ipairs(resources) do
  redis.call('PEXPIRE', leaseKey(resource), leaseMs, 'GT')
  redis.call('SET', fenceKey(resource), fence, 'PX', fenceTtlMs)
end
if rare and redis.call('EXISTS', tombstoneKey(token)) == 1 then return {'healed'} end
return {'extended'}
`,
)

/**
 * Returns  healed | lost, token that holds it or '' | abandoned | unenrolled
 * Keeps: gives keys back only where nobody else holds the resource and nobody was granted since. Sent only
 * by a holder whose extension a quorum has just confirmed, and never counted as a vote. While a master is
 * quarantined it may have forgotten a grant to an attempt that is still going on and counts it; so that it does not
 * vote for that attempt and for this lease, a key healed now votes only when the quarantine is over (tombstone).
 */
export const healProcedure: Procedure = defineProcedure(
  'heal',
  ['resources', 'token', 'leaseMs', 'fence'],
  `
if not enrolled then return {'unenrolled'} end
if rare and redis.call('EXISTS', tombstoneKey(token)) == 1 then return {'abandoned'} end
for _, resource in ipairs(resources) do
  local holder = redis.call('GET', leaseKey(resource))
  local counter = tonumber(redis.call('GET', fenceKey(resource)) or '0')
  if counter > tonumber(fence) then return {'lost', holder or ''} end
  if holder and holder ~= token then return {'lost', holder} end
end
for _, resource in ipairs(resources) do
  if redis.call('SET', leaseKey(resource), token, 'PX', leaseMs, 'NX') == false then
    redis.call('PEXPIRE', leaseKey(resource), leaseMs, 'GT')
  end
  redis.call('SET', fenceKey(resource), fence, 'PX', fenceTtlMs)
end
if quarantineMs > 0 then
  redis.call('SET', tombstoneKey(token), '1', 'PX', quarantineMs)
  keepRare(quarantineMs)
end
return {'healed'}
`,
)

/**
 * `tombstoneMs` is 0 for none. `graceMs` is how long the resource is kept for those who are next, 0 for not at all. `waiter` is the name
 * under which the holder may have waited before it was granted, left out where it cannot have; its place in the line ends with its lease.
 * Returns  number of leases deleted
 * Keeps: only the holder's own keys are deleted, and before anything else: the line is advice, and whatever is wrong with it keeps no
 * lease. With a tombstone, a grant or a heal for this token that still travels is refused when it arrives. A release is announced only
 * where somebody waits: with the beginning of the token, which tells one release from another, and who is next.
 */
export const releaseProcedure: Procedure = defineProcedure(
  'release',
  ['resources', 'token', 'tombstoneMs', 'graceMs', 'waiter'],
  `
if tombstoneMs > 0 then
  redis.call('SET', tombstoneKey(token), '1', 'PX', tombstoneMs)
  keepRare(tombstoneMs)
end
local mine, deleted = {}, 0
for _, resource in ipairs(resources) do
  mine[resource] = redis.call('GET', leaseKey(resource)) == token
  if mine[resource] then deleted = deleted + redis.call('DEL', leaseKey(resource)) end
end
if not rare then return deleted end
local function first(line) return redis.call('ZRANGEBYSCORE', line, nowMs, '+inf', 'LIMIT', 0, ${NAMED}) end
for _, resource in ipairs(resources) do
  local line = waitersKey(resource)
  local waiters = mine[resource] and first(line)
  if waiter and (not waiters or #waiters > 0) then
    redis.call('ZREM', line, waiter)
    waiters = waiters and first(line)
  end
  if waiters and #waiters > 0 then
    local named = table.concat(waiters, ',')
    if graceMs > 0 then
      redis.call('SET', nextKey(resource), named, 'PX', graceMs)
      keepRare(graceMs)
    end
    redis.call('PUBLISH', releasesChannel, string.sub(token, 1, 8) .. ' ' .. named .. ' ' .. resource)
  end
end
return deleted
`,
)

/**
 * Returns  withdrawn
 * Keeps: nothing; a waiter that gave up leaves its place.
 */
export const withdrawProcedure: Procedure = defineProcedure(
  'withdraw',
  ['resources', 'waiter'],
  `
for _, resource in ipairs(resources) do redis.call('ZREM', waitersKey(resource), waiter) end
return {'withdrawn'}
`,
)

/**
 * Returns  the holder's token or nil, its PTTL ms, the counter or nil
 * Keeps: changes nothing.
 */
export const inspectProcedure: Procedure = defineProcedure(
  'inspect',
  ['resource'],
  `
return {redis.call('GET', leaseKey(resource)), redis.call('PTTL', leaseKey(resource)), redis.call('GET', fenceKey(resource))}
`,
)

/** Loaded into every enrolled master, in one script. */
export const leaseLibrary: Library = {
  prelude: PRELUDE,
  procedures: [
    acquireProcedure,
    confirmProcedure,
    extendProcedure,
    healProcedure,
    releaseProcedure,
    withdrawProcedure,
    inspectProcedure,
  ],
}

/**
 * KEYS  1 master
 * ARGV  1 runId · 2 maxLeaseMs · 3 quarantineMs · 4 durable, 1 or 0 · 5 fleetSize, of how many masters it is one
 *       6 1 where the caller may be the first, 0 where other masters refuse it
 * Returns  enrolled, ms until it may grant | mismatch, maxLeaseMs or fleetSize, what it is for the fleet | unfounded
 * Keeps: a server process that is new to the fleet grants nothing until every lease that an earlier
 * memory may have held is over. Only memory that was durable before and after needs no wait. Clients that count another number of
 * masters are refused, because two quorums of them need not meet; whom other masters refuse is not the first to write the record.
 */
export const enrolScript: Script = defineScript(
  'enrol',
  `
local known = redis.call('HMGET', KEYS[1], 'runId', 'maxLeaseMs', 'votesFromMs', 'durable', 'fleetSize')
if known[2] and known[2] ~= ARGV[2] then return {'mismatch', 'maxLeaseMs', known[2]} end
if known[5] and known[5] ~= ARGV[5] then return {'mismatch', 'fleetSize', known[5]} end
if not known[1] and ARGV[6] == '0' then return {'unfounded'} end
local time = redis.call('TIME')
local nowMs = time[1] * 1000 + math.ceil(time[2] / 1000)
local votesFromMs = tonumber(known[3] or '0')
if known[1] ~= ARGV[1] then
  local kept = known[1] and known[4] == '1' and ARGV[4] == '1'
  if not kept then votesFromMs = nowMs + tonumber(ARGV[3]) end
end
redis.call('HSET', KEYS[1], 'runId', ARGV[1], 'maxLeaseMs', ARGV[2],
  'votesFromMs', string.format('%.0f', votesFromMs), 'durable', ARGV[4], 'fleetSize', ARGV[5])
return {'enrolled', math.max(0, votesFromMs - nowMs)}
`,
)

/**
 * KEYS  1 master
 * ARGV  1 runId · 2 maxLeaseMs · 3 fleetSize
 * Returns  enrolled, 0
 * Keeps: nothing; an operator states that no lease exists, so that the master may grant at once.
 */
export const bootstrapScript: Script = defineScript(
  'bootstrap',
  `
redis.call('HSET', KEYS[1], 'runId', ARGV[1], 'maxLeaseMs', ARGV[2], 'votesFromMs', '0',
  'fleetSize', ARGV[3])
return {'enrolled', 0}
`,
)
