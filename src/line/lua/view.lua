--[[
  Takes the place of scripts that show or move waiting jobs.

  ARGV  base · slots
]]
--- @include "keys"
--- @include "asleep-view"
return bullmq(viewOf(), KEYS, theirs)
