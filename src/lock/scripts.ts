/**
 * What a master does, as Lua. Each script runs atomically on one server and is safe to run twice.
 *
 * Common to all: a reply is an array that begins with a word. `TIME` is read once (it moves inside
 * a script before Redis 7.2). Counters are written with `%.0f`, because Lua's `tostring` loses the
 * last digits of a microsecond count. `unenrolled` means that this server is not, or no longer, the
 * one that the caller's connection enrolled: it restarted, lost its data, or serves another fleet.
 */
import { defineScript, type Script } from '../redis/script.ts'

/** Refuses a caller whose connection has not enrolled this very server process. */
const ENROLLED = `
local enrolment = redis.call('HMGET', KEYS[1], 'runId', 'maxLeaseMs', 'votesFromMs')
if enrolment[1] ~= ARGV[1] or enrolment[2] ~= ARGV[2] then return {'unenrolled'} end
`

/**
 * KEYS  1 master · 2 lease · 3 fence · 4 tombstone of the token
 * ARGV  1 runId · 2 maxLeaseMs · 3 token · 4 leaseMs · 5 proposal (µs) · 6 fenceTtlMs · 7 maxClockSkewMs
 * Returns  granted, counter | taken, holder's token, its PTTL ms | quarantined, ms to go
 *          | skewed, ms the proposal is ahead | abandoned | unenrolled
 * Keeps: the counter of a resource grows with every grant to a new token; a repeated call for
 * the holder's own token grants again with the same counter and does not lengthen the lease.
 */
export const acquireScript: Script = defineScript(
  'acquire',
  `${ENROLLED}
local time = redis.call('TIME')
local nowUs = time[1] * 1000000 + time[2]
local quarantineMs = tonumber(enrolment[3]) - nowUs / 1000
if quarantineMs > 0 then return {'quarantined', math.ceil(quarantineMs)} end
local aheadMs = (tonumber(ARGV[5]) - nowUs) / 1000
if aheadMs > tonumber(ARGV[7]) then return {'skewed', math.ceil(aheadMs)} end
if redis.call('EXISTS', KEYS[4]) == 1 then return {'abandoned'} end
local holder = redis.call('GET', KEYS[2])
local counter = tonumber(redis.call('GET', KEYS[3]) or '0')
if holder == ARGV[3] then return {'granted', counter} end
if holder then return {'taken', holder, redis.call('PTTL', KEYS[2])} end
counter = math.max(counter + 1, tonumber(ARGV[5]))
redis.call('SET', KEYS[2], ARGV[3], 'PX', ARGV[4])
redis.call('SET', KEYS[3], string.format('%.0f', counter), 'PX', ARGV[6])
return {'granted', counter}
`,
)

/**
 * KEYS  1 master · 2 lease · 3 fence
 * ARGV  1 runId · 2 maxLeaseMs · 3 token · 4 fencing token · 5 fenceTtlMs
 * Returns  counter, value after the write | lost | unenrolled
 * Keeps: the counter is raised only for the token that holds the lease. The caller counts the
 * master only if the value *equals* its fencing token: a counter beyond it belongs to a later grant.
 */
export const confirmScript: Script = defineScript(
  'confirm',
  `${ENROLLED}
if redis.call('GET', KEYS[2]) ~= ARGV[3] then return {'lost'} end
local counter = math.max(tonumber(redis.call('GET', KEYS[3]) or '0'), tonumber(ARGV[4]))
redis.call('SET', KEYS[3], string.format('%.0f', counter), 'PX', ARGV[5])
return {'counter', counter}
`,
)

/**
 * KEYS  1 master · 2 lease · 3 fence
 * ARGV  1 runId · 2 maxLeaseMs · 3 token · 4 leaseMs · 5 fencing token · 6 fenceTtlMs
 * Returns  extended | missing | lost, token that holds it or '' | unenrolled
 * Keeps: a lease is never made shorter (GT), and is not extended where anyone was granted since.
 */
export const extendScript: Script = defineScript(
  'extend',
  `${ENROLLED}
local holder = redis.call('GET', KEYS[2])
local counter = tonumber(redis.call('GET', KEYS[3]) or '0')
if counter > tonumber(ARGV[5]) then return {'lost', holder or ''} end
if not holder then return {'missing'} end
if holder ~= ARGV[3] then return {'lost', holder} end
redis.call('PEXPIRE', KEYS[2], ARGV[4], 'GT')
redis.call('SET', KEYS[3], ARGV[5], 'PX', ARGV[6])
return {'extended'}
`,
)

/**
 * KEYS  1 master · 2 lease · 3 fence · 4 tombstone of the token
 * ARGV  1 runId · 2 maxLeaseMs · 3 token · 4 leaseMs · 5 fencing token · 6 fenceTtlMs
 * Returns  healed | lost, token that holds it or '' | abandoned | unenrolled
 * Keeps: gives a key back only where nobody holds the resource and nobody was granted since. Sent only
 * by a holder whose extension a quorum has just confirmed, and never counted as a vote.
 */
export const healScript: Script = defineScript(
  'heal',
  `${ENROLLED}
if redis.call('EXISTS', KEYS[4]) == 1 then return {'abandoned'} end
local holder = redis.call('GET', KEYS[2])
local counter = tonumber(redis.call('GET', KEYS[3]) or '0')
if holder or counter > tonumber(ARGV[5]) then return {'lost', holder or ''} end
redis.call('SET', KEYS[2], ARGV[3], 'PX', ARGV[4])
redis.call('SET', KEYS[3], ARGV[5], 'PX', ARGV[6])
return {'healed'}
`,
)

/**
 * KEYS  1 lease · 2 tombstone of the token
 * ARGV  1 token · 2 tombstoneMs, 0 for none
 * Returns  released | absent
 * Keeps: only the holder's own key is deleted. With a tombstone, a grant or a heal for this token
 * that still travels is refused when it arrives.
 */
export const releaseScript: Script = defineScript(
  'release',
  `
if ARGV[2] ~= '0' then redis.call('SET', KEYS[2], '1', 'PX', ARGV[2]) end
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {'absent'} end
redis.call('DEL', KEYS[1])
return {'released'}
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

/** Loaded into every enrolled master; enrolment itself must not need a loaded script. */
export const leaseScripts: readonly Script[] = [
  acquireScript,
  confirmScript,
  extendScript,
  healScript,
  releaseScript,
]
