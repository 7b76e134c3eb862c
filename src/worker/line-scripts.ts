/**
 * The lines of waiting jobs, in the queue's Redis under our own keys. Each script touches the keys of one line only, which
 * share a hash tag. What they keep is advice about turns; a lease on the masters is what makes it safe.
 *
 * line    sorted set: ticket, scored by when it joined (µs, the queue Redis's clock)
 * parked  hash: ticket of a job that sleeps until it is woken, to its mark: `{BullMQ priority}:{how often it had been started}`
 */
import { defineScript, type Script } from '../redis/script.ts'

/**
 * KEYS  1 line · 2 parked
 * ARGV  1 ticket · 2 time to join with, µs, or '' for now · 3 mark of a job that sleeps, or '' · 4 '1' to be told the place
 * Returns  the time with which it stands in the line, µs · how many stand before it, or -1 when that was not asked
 * Keeps: a ticket that is in the line keeps its place. A sleeper is marked in the same breath, so that whoever makes it the
 * head sees that it sleeps.
 */
export const joinScript: Script = defineScript(
  'join',
  `
local at = ARGV[2]
if at == '' then
  local time = redis.call('TIME')
  at = string.format('%.0f', time[1] * 1000000 + time[2])
end
if redis.call('ZADD', KEYS[1], 'NX', at, ARGV[1]) == 0 then
  at = string.format('%.0f', redis.call('ZSCORE', KEYS[1], ARGV[1]))
end
if ARGV[3] ~= '' then redis.call('HSET', KEYS[2], ARGV[1], ARGV[3]) end
return {at, ARGV[4] == '1' and redis.call('ZRANK', KEYS[1], ARGV[1]) or -1}
`,
)

/**
 * KEYS  1 line · 2 parked
 * ARGV  1 ticket · 2 slots · 3 which start of the job asks · 4 ticket of one that has finished, which leaves, or ''
 * Returns  how many stand before it, or -1 when it is not in the line; where it is its turn also the ticket and the mark of the
 *          one whose turn it is when this one leaves, if that one sleeps
 * Keeps: a job that is up is not marked as asleep. A mark of this start or a later one stays: this call is late, and the job
 * sleeps again by now.
 */
export const turnScript: Script = defineScript(
  'turn',
  `
local mark = redis.call('HGET', KEYS[2], ARGV[1])
if mark and tonumber(string.match(mark, '%d+$')) < tonumber(ARGV[3]) then
  redis.call('HDEL', KEYS[2], ARGV[1])
end
if ARGV[4] ~= '' then redis.call('ZREM', KEYS[1], ARGV[4]) end
local before = redis.call('ZRANK', KEYS[1], ARGV[1])
if not before then return {-1} end
if before >= tonumber(ARGV[2]) then return {before} end
local following = redis.call('ZRANGE', KEYS[1], ARGV[2], ARGV[2])[1]
local asleep = following and redis.call('HGET', KEYS[2], following)
if not asleep then return {before} end
return {before, following, asleep}
`,
)

/**
 * KEYS  1 line · 2 parked
 * ARGV  1 slots
 * Returns  ticket, mark (or '' if it is not asleep) of each of the first ones
 * Keeps: marks of jobs that were removed while they slept go when the line is empty.
 */
export const lookScript: Script = defineScript(
  'look',
  `
local found = {}
if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('DEL', KEYS[2]) end
for _, head in ipairs(redis.call('ZRANGE', KEYS[1], 0, ARGV[1] - 1)) do
  table.insert(found, head)
  table.insert(found, redis.call('HGET', KEYS[2], head) or '')
end
return found
`,
)
