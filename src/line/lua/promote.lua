--[[
  Takes the place of `promote`.

  ARGV  1 space · 2 slots · 3 base · 4 job id
  Returns  as BullMQ's; a sleeping job is not delayed
  Keeps: a delayed job that may start takes its places before jobs that are added later.
]]
--- @include "asleep"
--- @include "keys"
--- @include "limits"
--- @include "shares"
--- @include "line"
--- @include "asleep-view"
local result = bullmq(viewOf(ARGV[3]), KEYS, theirs)
if result == 0 then joining(ARGV[3]).join(ARGV[4]) end
return result
