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
 * Returns  those without a time to live
 */
export const immortalScript: Script = defineScript(
  'immortal',
  `
local found = {}
for _, key in ipairs(KEYS) do
  if redis.call('PTTL', key) == -1 then table.insert(found, key) end
end
return found
`,
)
