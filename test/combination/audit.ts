/** What holds at any moment, whatever runs: asked of the queue's Redis in one script. */
import type { Redis } from 'ioredis'
import { ASLEEP } from '../../src/line/line-runner.ts'

const AUDIT = `
local base, asleep = ARGV[1], ARGV[2]
local space = base .. 'redlock:::line:'
local lines, found = {}, {}
for _, key in ipairs(redis.call('KEYS', space .. '*')) do
  local ids = {}
  for _, place in ipairs(redis.call('ZRANGE', key, 0, -1)) do
    local id = string.match(place, '^(.*) %S+$')
    if id then
      ids[id] = true
      local finishedOn, holds = unpack(redis.call('HMGET', base .. id, 'finishedOn', 'redlock:holds'))
      if redis.call('EXISTS', base .. id) == 0 then
        found[#found + 1] = 'job ' .. id .. ' is gone, and has a place'
      elseif finishedOn and holds ~= finishedOn then
        found[#found + 1] = 'job ' .. id .. ' has ended, and has a place'
      end
    end
  end
  lines[string.sub(key, #space + 1)] = ids
end
for _, id in ipairs(redis.call('ZRANGEBYSCORE', base .. 'delayed', asleep, '+inf')) do
  local names = redis.call('HGET', base .. id, 'redlock:lines')
  for _, name in ipairs(names and cjson.decode(names) or {}) do
    if not (lines[name] and lines[name][id]) then
      found[#found + 1] = 'job ' .. id .. ' sleeps, and has no place in the line of ' .. name
    end
  end
  if not names and redis.call('EXISTS', base .. id) == 1 then
    found[#found + 1] = 'job ' .. id .. ' sleeps in no line'
  end
end
for _, key in ipairs(redis.call('KEYS', base .. 'redlock:::ready-jobs:*')) do
  for _, id in ipairs(redis.call('ZRANGE', key, 0, -1)) do
    local timestamp, share = unpack(redis.call('HMGET', base .. id, 'timestamp', 'redlock:share'))
    if timestamp and not share then found[#found + 1] = 'job ' .. id .. ' is ready, and has no share' end
  end
end
for _, store in ipairs(redis.call('KEYS', base .. 'redlock:::steps:*')) do
  local jobKey = base .. string.sub(store, #base + #'redlock:::steps:' + 1)
  local number, lock = unpack(redis.call('HMGET', store, 'number', 'lock'))
  local isClaimed = lock and lock == redis.call('GET', jobKey .. ':lock')
  -- A job that follows another one has the same lock. It claims its steps when it starts.
  local own = redis.call('HGET', jobKey, 'redlock:steps')
  if isClaimed and own and own ~= number then
    found[#found + 1] = 'the steps in ' .. store .. ' are not of its job'
  end
end
return found
`

/** Resources that have had a start counted for a rate. */
export async function ratedResources(redis: Redis, base: string): Promise<readonly string[]> {
  const rate = `${base}redlock:::rate:`
  const keys = await redis.keys(`${rate}*`)
  return keys.map((key) => key.slice(rate.length))
}

/** @returns what is wrong in the lines of the queue whose keys begin with `base`. */
export async function audit(redis: Redis, base: string): Promise<readonly string[]> {
  return (await redis.eval(AUDIT, 0, base, ASLEEP)) as string[]
}
