/**
 * What a master does, as Lua. Each script runs atomically on one server and is safe to run twice.
 *
 * Common to all: a reply is an array that begins with a word. `TIME` is read once (it moves inside
 * a script before Redis 7.2) and reported, so that clients notice a clock that jumps. Counters are
 * written with `%.0f`, because Lua's `tostring` loses the last digits of a microsecond count. `unenrolled` means that this server is not, or no longer, the
 * one that the caller's connection enrolled: it restarted, lost its data, or serves another fleet.
 */
import { defineScript, type Script } from '../redis/script.ts'

/** Refuses a caller whose connection has not enrolled this very server process. */
const ENROLLED = `
local time = redis.call('TIME')
local nowMs = time[1] * 1000 + math.floor(time[2] / 1000)
local enrolment = redis.call('HMGET', KEYS[1], 'runId', 'maxLeaseMs', 'votesFromMs')
if enrolment[1] ~= ARGV[1] or enrolment[2] ~= ARGV[2] then return {'unenrolled', nowMs} end
`

/**
 * KEYS  1 master · 2 tombstone of the token · then lease, fence, waiters of each resource
 * ARGV  1 runId · 2 maxLeaseMs · 3 token · 4 leaseMs · 5 proposal (µs) · 6 fenceTtlMs · 7 maxClockSkewMs
 *       8 token to take over from, or '' · 9 its fencing token, or 0 · 10 how long the caller waits, ms, or 0
 * Returns  granted, nowMs, counter | taken, nowMs, holder's token, its PTTL ms | quarantined, nowMs, ms to go
 *          | skewed, nowMs, ms the proposal is ahead | abandoned, nowMs | unenrolled, nowMs
 * Keeps: all resources or none. The counter of a resource grows with every grant to a new token. A repeated
 * call for the holder's own token grants again with the same counter and does not lengthen the lease. A lease is
 * taken over only from the token that gave it up, and only where nobody was granted after it. A caller that goes on
 * waiting is marked in the same breath, so that no release can slip in between.
 */
export const acquireScript: Script = defineScript(
  'acquire',
  `${ENROLLED}
local quarantineMs = tonumber(enrolment[3]) - nowMs
if quarantineMs > 0 then return {'quarantined', nowMs, quarantineMs} end
local aheadMs = tonumber(ARGV[5]) / 1000 - nowMs
if aheadMs > tonumber(ARGV[7]) then return {'skewed', nowMs, math.ceil(aheadMs)} end
if redis.call('EXISTS', KEYS[2]) == 1 then return {'abandoned', nowMs} end
local counter, mine = 0, true
for i = 3, #KEYS, 3 do
  local holder = redis.call('GET', KEYS[i])
  local count = tonumber(redis.call('GET', KEYS[i + 1]) or '0')
  local free = not holder or holder == ARGV[3]
    or (holder == ARGV[8] and count <= tonumber(ARGV[9]))
  if not free then
    if tonumber(ARGV[10]) > math.max(0, redis.call('PTTL', KEYS[i + 2])) then
      redis.call('SET', KEYS[i + 2], '1', 'PX', ARGV[10])
    end
    return {'taken', nowMs, holder, redis.call('PTTL', KEYS[i])}
  end
  if holder ~= ARGV[3] then mine = false end
  counter = math.max(counter, count)
end
if mine then return {'granted', nowMs, counter} end
counter = math.max(counter + 1, tonumber(ARGV[5]))
for i = 3, #KEYS, 3 do
  redis.call('SET', KEYS[i], ARGV[3], 'PX', ARGV[4])
  redis.call('SET', KEYS[i + 1], string.format('%.0f', counter), 'PX', ARGV[6])
end
return {'granted', nowMs, counter}
`,
)

/**
 * KEYS  1 master · 2 tombstone of the token · then lease, fence, waiters of each resource
 * ARGV  1 runId · 2 maxLeaseMs · 3 token · 4 fencing token · 5 fenceTtlMs
 * Returns  counter, nowMs, highest value after the write | lost, nowMs | unenrolled, nowMs
 * Keeps: a counter is raised only for the token that holds every one of the leases. The caller counts the
 * master only if the value *equals* its fencing token: a counter beyond it belongs to a later grant.
 */
export const confirmScript: Script = defineScript(
  'confirm',
  `${ENROLLED}
for i = 3, #KEYS, 3 do
  if redis.call('GET', KEYS[i]) ~= ARGV[3] then return {'lost', nowMs} end
end
local highest = 0
for i = 4, #KEYS, 3 do
  local counter = math.max(tonumber(redis.call('GET', KEYS[i]) or '0'), tonumber(ARGV[4]))
  redis.call('SET', KEYS[i], string.format('%.0f', counter), 'PX', ARGV[5])
  highest = math.max(highest, counter)
end
return {'counter', nowMs, highest}
`,
)

/**
 * KEYS  1 master · 2 tombstone of the token · then lease, fence, waiters of each resource
 * ARGV  1 runId · 2 maxLeaseMs · 3 token · 4 leaseMs · 5 fencing token · 6 fenceTtlMs
 * Returns  extended, nowMs | healed, nowMs | missing, nowMs | lost, nowMs, token that holds it or ''
 *          | unenrolled, nowMs
 * Keeps: a lease is never made shorter (GT), and is not extended where anyone was granted since. `healed` is no
 * vote: the key is kept alive, but it was given back within the quarantine that is still on.
 */
export const extendScript: Script = defineScript(
  'extend',
  `${ENROLLED}
local missing = false
for i = 3, #KEYS, 3 do
  local holder = redis.call('GET', KEYS[i])
  local counter = tonumber(redis.call('GET', KEYS[i + 1]) or '0')
  if counter > tonumber(ARGV[5]) then return {'lost', nowMs, holder or ''} end
  if holder and holder ~= ARGV[3] then return {'lost', nowMs, holder} end
  if not holder then missing = true end
end
if missing then return {'missing', nowMs} end
for i = 3, #KEYS, 3 do
  redis.call('PEXPIRE', KEYS[i], ARGV[4], 'GT')
  redis.call('SET', KEYS[i + 1], ARGV[5], 'PX', ARGV[6])
end
if redis.call('EXISTS', KEYS[2]) == 1 then return {'healed', nowMs} end
return {'extended', nowMs}
`,
)

/**
 * KEYS  1 master · 2 tombstone of the token · then lease, fence, waiters of each resource
 * ARGV  1 runId · 2 maxLeaseMs · 3 token · 4 leaseMs · 5 fencing token · 6 fenceTtlMs
 * Returns  healed, nowMs | lost, nowMs, token that holds it or '' | abandoned, nowMs | unenrolled, nowMs
 * Keeps: gives keys back only where nobody else holds the resource and nobody was granted since. Sent only
 * by a holder whose extension a quorum has just confirmed, and never counted as a vote. While a master is
 * quarantined it may have forgotten a grant to an attempt that is still going on and counts it; so that it does not
 * vote for that attempt and for this lease, a key healed now votes only when the quarantine is over (tombstone).
 */
export const healScript: Script = defineScript(
  'heal',
  `${ENROLLED}
if redis.call('EXISTS', KEYS[2]) == 1 then return {'abandoned', nowMs} end
for i = 3, #KEYS, 3 do
  local holder = redis.call('GET', KEYS[i])
  local counter = tonumber(redis.call('GET', KEYS[i + 1]) or '0')
  if counter > tonumber(ARGV[5]) then return {'lost', nowMs, holder or ''} end
  if holder and holder ~= ARGV[3] then return {'lost', nowMs, holder} end
end
for i = 3, #KEYS, 3 do
  if redis.call('SET', KEYS[i], ARGV[3], 'PX', ARGV[4], 'NX') == false then
    redis.call('PEXPIRE', KEYS[i], ARGV[4], 'GT')
  end
  redis.call('SET', KEYS[i + 1], ARGV[5], 'PX', ARGV[6])
end
local quarantineMs = tonumber(enrolment[3]) - nowMs
if quarantineMs > 0 then redis.call('SET', KEYS[2], '1', 'PX', quarantineMs) end
return {'healed', nowMs}
`,
)

/**
 * KEYS  1 tombstone of the token · then lease, waiters of each resource
 * ARGV  1 token · 2 tombstoneMs, 0 for none · 3 channel of releases · then each resource's name
 * Returns  released, number of leases deleted
 * Keeps: only the holder's own keys are deleted. With a tombstone, a grant or a heal for this token
 * that still travels is refused when it arrives. A release is announced only where somebody waits.
 */
export const releaseScript: Script = defineScript(
  'release',
  `
if ARGV[2] ~= '0' then redis.call('SET', KEYS[1], '1', 'PX', ARGV[2]) end
local deleted = 0
for i = 2, #KEYS, 2 do
  if redis.call('GET', KEYS[i]) == ARGV[1] then
    redis.call('DEL', KEYS[i])
    deleted = deleted + 1
    if redis.call('DEL', KEYS[i + 1]) == 1 then redis.call('PUBLISH', ARGV[3], ARGV[i / 2 + 3]) end
  end
end
return {'released', deleted}
`,
)

/**
 * KEYS  1 master
 * ARGV  1 runId · 2 maxLeaseMs · 3 quarantineMs · 4 durable, 1 or 0
 * Returns  enrolled, ms until it may grant | mismatch, the fleet's maxLeaseMs
 * Keeps: a server process that is new to the fleet grants nothing until every lease that an earlier
 * memory may have held is over. Only memory that was durable before and after needs no wait.
 */
export const enrolScript: Script = defineScript(
  'enrol',
  `
local known = redis.call('HMGET', KEYS[1], 'runId', 'maxLeaseMs', 'votesFromMs', 'durable')
if known[2] and known[2] ~= ARGV[2] then return {'mismatch', known[2]} end
local time = redis.call('TIME')
local nowMs = time[1] * 1000 + math.ceil(time[2] / 1000)
local votesFromMs = tonumber(known[3] or '0')
if known[1] ~= ARGV[1] then
  local kept = known[1] and known[4] == '1' and ARGV[4] == '1'
  if not kept then votesFromMs = nowMs + tonumber(ARGV[3]) end
end
redis.call('HSET', KEYS[1], 'runId', ARGV[1], 'maxLeaseMs', ARGV[2],
  'votesFromMs', string.format('%.0f', votesFromMs), 'durable', ARGV[4])
return {'enrolled', math.max(0, votesFromMs - nowMs)}
`,
)

/**
 * KEYS  1 master
 * ARGV  1 runId · 2 maxLeaseMs
 * Returns  enrolled, 0
 * Keeps: nothing; an operator states that no lease exists, so that the master may grant at once.
 */
export const bootstrapScript: Script = defineScript(
  'bootstrap',
  `
redis.call('HSET', KEYS[1], 'runId', ARGV[1], 'maxLeaseMs', ARGV[2], 'votesFromMs', '0')
return {'enrolled', 0}
`,
)

/**
 * KEYS  1 lease · 2 fence
 * Returns  the holder's token or nil, its PTTL ms, the counter or nil
 * Keeps: changes nothing.
 */
export const inspectScript: Script = defineScript(
  'inspect',
  `
return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1]), redis.call('GET', KEYS[2])}
`,
)

/** Loaded into every enrolled master; enrolment itself must not need a loaded script. */
export const leaseScripts: readonly Script[] = [
  acquireScript,
  confirmScript,
  extendScript,
  healScript,
  releaseScript,
  inspectScript,
]
