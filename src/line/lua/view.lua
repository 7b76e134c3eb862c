--[[
  Takes the place of scripts that show or move waiting jobs.

  ARGV  1 space · 2 slots · 3 base. Returns as BullMQ's, with sleeping jobs among those that wait.
]]
--- @include "asleep"
--- @include "keys"
--- @include "limits"
--- @include "shares"
--- @include "line"
--- @include "asleep-view"
return bullmq(viewOf(ARGV[3]), KEYS, theirs)
