/**
 * A server's enrolment, as Lua: whether it is the one the fleet knows, and whether it may grant.
 * How long a quarantine has lasted is counted by clients, on their monotonic clocks. The server has
 * only a wall clock, which may be set meanwhile.
 */
import { defineScript, type Script } from '../wire/script.ts'

/**
 * KEYS  1 master
 * ARGV  1 runId · 2 maxLeaseMs · 3 quarantineMs · 4 durable, 1 or 0
 *       5 fleetSize, of how many masters it is one
 *       6 1 where the caller may be the first, 0 where other masters refuse it
 *       7 the client's id, by which it knows whether it was the first
 *       8 a fresh name for a quarantine that begins now · 9 fenceTtlMs
 * Returns  enrolled, ms left of the quarantine, its name or '', id of the first client, TIME in ms
 *          | mismatch, name of a setting, what it is for the fleet | foreign
 * Keeps: a server process that is new to the fleet grants nothing until every lease that an earlier
 * memory may have held is over. Only memory that was durable before and after needs no wait.
 * Clients that count another number of masters are refused, because two quorums of them need not
 * meet. A client that other masters refuse is not the first to write the record. Counters live
 * equally long for all clients.
 */
export const enrolScript: Script = defineScript(
  'enrol',
  `
local known = redis.call('HMGET', KEYS[1], 'runId', 'maxLeaseMs', 'fleetSize', 'fenceTtlMs',
  'durable', 'founder', 'quarantine', 'votesInMs')
if known[2] and known[2] ~= ARGV[2] then return {'mismatch', 'maxLeaseMs', known[2]} end
-- rule: fleets-of-one-size
if known[3] and known[3] ~= ARGV[5] then return {'mismatch', 'fleetSize', known[3]} end
if known[4] and known[4] ~= ARGV[9] then return {'mismatch', 'fenceTtlMs', known[4]} end
-- rule: refused-client-founds-no-fleet
if not known[1] and ARGV[6] == '0' then return {'foreign'} end
local founder = known[6] or ''
if not known[1] then founder = ARGV[7] end
local quarantine, votesInMs = known[7] or '', known[8] or '0'
-- rule: new-run-id-is-quarantined
if known[1] ~= ARGV[1] then
  local survives = known[1] and known[5] == '1' and ARGV[4] == '1'
  if not survives then quarantine, votesInMs = ARGV[8], ARGV[3] end
end
redis.call('HSET', KEYS[1], 'runId', ARGV[1], 'maxLeaseMs', ARGV[2], 'fleetSize', ARGV[5],
  'fenceTtlMs', ARGV[9], 'durable', ARGV[4], 'founder', founder, 'quarantine', quarantine,
  'votesInMs', votesInMs)
local time = redis.call('TIME')
local nowMs = time[1] * 1000 + math.floor(time[2] / 1000)
return {'enrolled', tonumber(votesInMs), quarantine, founder, nowMs}
`,
)

/**
 * KEYS  1 master
 * ARGV  1 name of the quarantine · 2 ms left of it, as this client has counted
 * Returns  ms left of it by the longest count of all clients; 0 also where it is not on
 * Keeps: only the quarantine that was counted is shortened. Another loss of memory begins another.
 */
export const waitedScript: Script = defineScript(
  'waited',
  `
local known = redis.call('HMGET', KEYS[1], 'quarantine', 'votesInMs')
-- rule: only-the-counted-quarantine-ends
if known[1] ~= ARGV[1] then return 0 end
local leftMs = math.min(tonumber(known[2]), tonumber(ARGV[2]))
redis.call('HSET', KEYS[1], 'votesInMs', leftMs)
return leftMs
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
redis.call('HSET', KEYS[1], 'runId', ARGV[1], 'maxLeaseMs', ARGV[2], 'fleetSize', ARGV[3],
  'quarantine', '', 'votesInMs', '0')
return {'enrolled', 0}
`,
)
