--[[
  A job that could not start goes back to the queue for a while, unless it has waited for too long.

  ARGV  base · slots · id: of the job · maxWaitMs, dueAt: see `deadline`
  Returns  1 it has waited for too long | 0
  Keeps: the time in which it is away counts.
]]
--- @include "keys"
--- @include "deadline"
local jobKey = BASE .. ARGV.id
local deadline = deadlineFrom(redis.call('HGET', jobKey, 'redlock:from'))
if deadline and deadline <= nowMs() then return 1 end
if redis.call('EXISTS', jobKey) == 1 then redis.call('HSET', jobKey, 'redlock:back', 1) end
return 0
