/** A server's enrolment, as Lua: whether it is the one the fleet knows, and from when it grants. */
import { defineScript, type Script } from '../../redis/script.ts'

/**
 * KEYS  1 master
 * ARGV  1 runId · 2 maxLeaseMs · 3 quarantineMs · 4 durable, 1 or 0 · 5 fleetSize, of how many masters it is one
 *       6 1 where the caller may be the first, 0 where other masters refuse it
       7 the client's id, by which it knows whether it was the first
 * Returns  enrolled, ms until it may grant, id of the first client | mismatch, maxLeaseMs or fleetSize, what it is for the fleet | unfounded
 * Keeps: a server process that is new to the fleet grants nothing until every lease that an earlier
 * memory may have held is over. Only memory that was durable before and after needs no wait. Clients that count another number of
 * masters are refused, because two quorums of them need not meet. A client that other masters refuse is not the first to write the record.
 */
export const enrolScript: Script = defineScript(
  'enrol',
  `
local known = redis.call('HMGET', KEYS[1], 'runId', 'maxLeaseMs', 'votesFromMs', 'durable', 'fleetSize', 'founder')
if known[2] and known[2] ~= ARGV[2] then return {'mismatch', 'maxLeaseMs', known[2]} end
if known[5] and known[5] ~= ARGV[5] then return {'mismatch', 'fleetSize', known[5]} end
if not known[1] and ARGV[6] == '0' then return {'unfounded'} end
local founder = known[6] or ''
if not known[1] then founder = ARGV[7] end
local time = redis.call('TIME')
local nowMs = time[1] * 1000 + math.ceil(time[2] / 1000)
local votesFromMs = tonumber(known[3] or '0')
if known[1] ~= ARGV[1] then
  local kept = known[1] and known[4] == '1' and ARGV[4] == '1'
  if not kept then votesFromMs = nowMs + tonumber(ARGV[3]) end
end
redis.call('HSET', KEYS[1], 'runId', ARGV[1], 'maxLeaseMs', ARGV[2],
  'votesFromMs', string.format('%.0f', votesFromMs), 'durable', ARGV[4], 'fleetSize', ARGV[5], 'founder', founder)
return {'enrolled', math.max(0, votesFromMs - nowMs), founder}
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
