--[[
  Takes the place of `moveToFinished` for a job that is cancelled from outside.

  ARGV  base · slots · id: of the job · reason
  Returns  failed: it waited | running: its worker is asked to stop it | finished | missing
  Keeps: a job that waits fails by BullMQ's own rules, as if a worker had started it.
]]
--- @include "line"
--- @include "turn"
local CANCEL_TTL_MS = 3600000
local id = ARGV.id
local jobKey = BASE .. id
local job = redis.call('HMGET', jobKey, 'timestamp', 'finishedOn', 'redlock:lines')
if not job[1] then return 'missing' end
if job[2] then return 'finished' end
if redis.call('EXISTS', jobKey .. ':lock') == 1 then
  redis.call('HSET', SPACE .. 'cancelled', id, cjson.encode({job[1], ARGV.reason}))
  redis.call('PEXPIRE', SPACE .. 'cancelled', CANCEL_TTL_MS)
  return 'running'
end
local waited = redis.call('ZREM', DELAYED, id) + redis.call('ZREM', PRIORITIZED, id)
  + redis.call('ZREM', BASE .. 'waiting-children', id)
if waited == 0 then waited = redis.call('LREM', WAIT, 1, id) end
if waited > 0 then redis.call('LPUSH', ACTIVE, id) end
local result = bullmq({call = seen, pcall = redis.pcall}, KEYS, theirs)
if result ~= 0 then return redis.error_reply('BullMQ did not fail the job: ' .. tostring(result)) end
if job[3] then leave(id, job[3], job[1]) end
return 'failed'
