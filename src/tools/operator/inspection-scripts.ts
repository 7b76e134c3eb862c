/** What an operator asks of one server, as Lua: one moment of it. Nothing is changed. */
import { defineScript, type Script } from '../../redlock/wire/script.ts'

/**
 * KEYS  1 master
 * ARGV  none
 * Returns  run id or '' if it is not enrolled, its maxLeaseMs, ms of quarantine left, how many
 * masters its fleet has or 0
 */
export const enrolmentScript: Script = defineScript(
  'enrolment',
  `
local known = redis.call('HMGET', KEYS[1], 'runId', 'maxLeaseMs', 'votesInMs', 'fleetSize')
return {known[1] or '', tonumber(known[2] or '0'), tonumber(known[3] or '0'), tonumber(known[4] or '0')}
`,
)

/**
 * KEYS  lease, fence of each resource
 * ARGV  none
 * Returns  token or '', its PTTL ms, counter or '' of each
 */
export const leasesScript: Script = defineScript(
  'leases',
  `
local found = {}
for i = 1, #KEYS, 2 do
  table.insert(found, redis.call('GET', KEYS[i]) or '')
  table.insert(found, redis.call('PTTL', KEYS[i]))
  table.insert(found, redis.call('GET', KEYS[i + 1]) or '')
end
return found
`,
)

/**
 * KEYS  any
 * ARGV  none
 * Returns  PTTL ms of each: -1 for a key without a time to live, -2 for one that is gone
 */
export const lifetimesScript: Script = defineScript(
  'lifetimes',
  `
local found = {}
for i, key in ipairs(KEYS) do found[i] = redis.call('PTTL', key) end
return found
`,
)
