--[[
  Takes the place of `moveToFinished` for a job that is cancelled from outside.

  ARGV  base · slots · reason
  Returns  failed: it waited | running: its worker is asked to stop it | finished | missing
           refused: it is the next one of a scheduler, which would end with it
  Keeps: a job that waits fails by BullMQ's own rules, as if a worker had started it. A request is
  for one run, which is known by BullMQ's token of its lock.
]]
--- @include "line"
--- @include "turn"
--- @include "leave"
--- @include "ready"
local CANCEL_TTL_MS = 3600000
local id = theirs[1]
local jobKey = BASE .. id
local job = redis.call('HMGET', jobKey, 'timestamp', 'finishedOn', 'redlock:lines', 'rjk', 'redlock:share')
local lock = redis.call('GET', jobKey .. ':lock')
-- rule: request-goes-with-its-run
if not lock then redis.call('HDEL', SPACE .. 'cancelled', id) end
if not job[1] then return 'missing' end
if job[2] then return 'finished' end
if lock then
  redis.call('HSET', SPACE .. 'cancelled', id, cjson.encode({lock, ARGV.reason}))
  redis.call('PEXPIRE', SPACE .. 'cancelled', CANCEL_TTL_MS)
  return 'running'
end
local nextAt = job[4] and redis.call('ZSCORE', BASE .. 'repeat', job[4])
-- rule: next-job-of-a-scheduler-stays
if nextAt and id == 'repeat:' .. job[4] .. ':' .. nextAt then return 'refused' end
local waited = redis.call('ZREM', DELAYED, id) + redis.call('ZREM', PRIORITIZED, id)
  + redis.call('ZREM', BASE .. 'waiting-children', id)
if waited == 0 then waited = redis.call('LREM', WAIT, 1, id) end
if waited > 0 then redis.call('LPUSH', ACTIVE, id) end
endsAt = theirs[2]
local result = bullmq({call = seen, pcall = redis.pcall}, KEYS, theirs)
if result ~= 0 then return redis.error_reply('BullMQ did not fail the job: ' .. tostring(result)) end
if job[3] then
  -- rule: cancelled-job-waits-for-nothing
  redis.call('ZREM', SPACE .. 'deadlines', placeOf(id, job[1]))
  if job[5] then leaveReady(id, job[5]) end
  leave(id, job[3], job[1])
end
return 'failed'
