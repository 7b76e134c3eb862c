--[[
  Takes the place of `moveToWaitingChildren`.

  ARGV  base · slots
  Returns  as BullMQ's
  Keeps: a job that waits for its children is not ahead of them. It takes its old place again
  when it goes on.
]]
--- @include "line"
--- @include "leave"
local id = theirs[4]
local jobKey = BASE .. id
local result = bullmq(redis, KEYS, theirs)
if result ~= 0 then return result end
redis.call('HSET', jobKey, 'redlock:ran', 1)
local job = redis.call('HMGET', jobKey, 'redlock:lines', 'timestamp')
-- rule: parent-leaves-while-it-waits
if job[1] then
  local since = leave(id, job[1], job[2])
  if since then redis.call('HSET', jobKey, 'redlock:since', since) end
end
return result
