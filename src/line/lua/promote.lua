--[[
  Takes the place of `promote` and of `reprocessJob`, by which a user starts a finished job again.

  ARGV  base · slots · replaces: which of them
  Returns  as BullMQ's; a sleeping job is not delayed
  Keeps: a job that may start again takes its places before jobs that are added later.
]]
--- @include "line"
--- @include "turn"
--- @include "asleep-view"
local result = bullmq(viewOf(), KEYS, theirs)
if result >= 0 then rules('join').join(theirs[ARGV.replaces == 'promote' and 2 or 1]) end
return result
