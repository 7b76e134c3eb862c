--[[
  Takes the place of `addJobScheduler` and `updateJobScheduler`.

  ARGV  base · slots · time: which argument of BullMQ's is the time of the client
  Returns  as BullMQ's
]]
--- @include "keys"
-- rule: scheduler-by-the-clock-of-the-server
theirs[ARGV.time] = math.floor(nowMs())
return bullmq(redis, KEYS, theirs)
