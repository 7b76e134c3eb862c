--[[
  Takes the place of `addJobScheduler` and `updateJobScheduler`.

  ARGV  base · slots · time: which argument of BullMQ's is the time of the client
  Returns  as BullMQ's
]]
--- @include "keys"
--- @include "removing"
-- rule: scheduler-by-the-clock-of-the-server
theirs[ARGV.time] = math.floor(nowMs())
return bullmq(removing(redis), KEYS, theirs)
