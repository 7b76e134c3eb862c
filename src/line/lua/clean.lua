--[[
  Takes the place of `cleanJobsInSet` for jobs that do not wait.

  ARGV  base · slots
]]
--- @include "keys"
--- @include "asleep-view"
--- @include "removing"
return bullmq(removing(viewOf()), KEYS, theirs)
