--[[
  Takes the place of the scripts that delete jobs on the way: of a scheduler, or of a parent.

  ARGV  base · slots
]]
--- @include "keys"
--- @include "removing"
return bullmq(removing(redis), KEYS, theirs)
