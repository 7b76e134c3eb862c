--[[
  Takes the place of `moveToFinished` for a job that is cancelled from outside.

  ARGV  1 space · 2 slots · 3 base · 4 job id · 5 reason
  Returns  failed: it waited | running: its worker is asked to stop it | finished | missing
  Keeps: a job that waits fails by BullMQ's own rules, as if a worker had started it.
]]
--- @include "asleep"
--- @include "keys"
--- @include "limits"
--- @include "shares"
--- @include "line"
local CANCEL_TTL_MS = 3600000
local base, id = ARGV[3], ARGV[4]
local jobKey = base .. id
local job = redis.call('HMGET', jobKey, 'timestamp', 'finishedOn', 'redlock:lines')
if not job[1] then return 'missing' end
if job[2] then return 'finished' end
if redis.call('EXISTS', jobKey .. ':lock') == 1 then
  redis.call('HSET', SPACE .. 'cancelled', jobKey, cjson.encode({job[1], ARGV[5]}))
  redis.call('PEXPIRE', SPACE .. 'cancelled', CANCEL_TTL_MS)
  return 'running'
end
local waited = redis.call('ZREM', base .. 'delayed', id) + redis.call('ZREM', base .. 'prioritized', id)
  + redis.call('ZREM', base .. 'waiting-children', id)
if waited == 0 then waited = redis.call('LREM', base .. 'wait', 1, id) end
if waited > 0 then redis.call('LPUSH', base .. 'active', id) end
local result = bullmq(joining(base), KEYS, theirs)
if result ~= 0 then return redis.error_reply('BullMQ did not fail the job: ' .. tostring(result)) end
if job[3] then leave(base, id, job[3], job[1]) end
return 'failed'
