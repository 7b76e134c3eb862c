/**
 * The lines of waiting jobs, in the queue's Redis under our own keys. Each script touches the keys of one line only, which
 * share a hash tag. What they keep is advice about turns; a lease on the masters is what makes it safe.
 *
 * line    sorted set: ticket, scored by when it joined (µs, the queue Redis's clock)
 * parked  hash: ticket of a job that sleeps until it is woken, to its BullMQ priority
 */
import { defineScript, type Script } from '../redis/script.ts'

/**
 * KEYS  1 line
 * ARGV  1 ticket · 2 time to join with, µs, or '' for now
 * Returns  the time that was used, µs · the ticket at the head
 * Keeps: a ticket that is in the line keeps its place.
 */
export const joinScript: Script = defineScript(
  'join',
  `
local at = ARGV[2]
if at == '' then
  local time = redis.call('TIME')
  at = string.format('%.0f', time[1] * 1000000 + time[2])
end
redis.call('ZADD', KEYS[1], 'NX', at, ARGV[1])
return {at, redis.call('ZRANGE', KEYS[1], 0, 0)[1]}
`,
)

/**
 * KEYS  1 line · 2 parked
 * ARGV  1 ticket
 * Returns  the new head and its priority, if it sleeps and must be woken; else nil
 * Keeps: exactly one sleeper is named, and only when it is its turn.
 */
export const leaveScript: Script = defineScript(
  'leave',
  `
redis.call('ZREM', KEYS[1], ARGV[1])
local head = redis.call('ZRANGE', KEYS[1], 0, 0)[1]
if not head then
  redis.call('DEL', KEYS[2])
  return nil
end
redis.call('HDEL', KEYS[2], ARGV[1])
local priority = redis.call('HGET', KEYS[2], head)
if not priority then return nil end
return {head, priority}
`,
)

/**
 * KEYS  1 line · 2 parked
 * Returns  the head · its priority if it is marked as asleep, else '' · how many stand in the line; or nil for none
 */
export const lookScript: Script = defineScript(
  'look',
  `
local head = redis.call('ZRANGE', KEYS[1], 0, 0)[1]
if not head then return nil end
return {head, redis.call('HGET', KEYS[2], head) or '', redis.call('ZCARD', KEYS[1])}
`,
)
