--[[
  Takes the place of `changeDelay`.

  ARGV  base · slots
  Returns  as BullMQ's; a sleeping job is not delayed
]]
--- @include "keys"
--- @include "asleep-view"
-- rule: changed-delay-by-the-clock-of-the-server
theirs[2] = math.floor(nowMs())
return bullmq(viewOf(), KEYS, theirs)
