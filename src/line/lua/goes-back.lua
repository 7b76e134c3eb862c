--[[
  Whether a job that could not start has waited for too long. If not, it goes back for a while.

  ARGV  base · slots · id: of the job · maxWaitMs, dueAt: see `deadline`
  Returns  1 it has waited for too long | 0
]]
--- @include "keys"
--- @include "deadline"
local deadline = deadlineFrom(ARGV.id, redis.call('HGET', BASE .. ARGV.id, 'redlock:from'))
if deadline and deadline <= nowMs() then return 1 end
return 0
