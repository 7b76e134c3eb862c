--[[
  Leaves the mark by which an idle worker looks for jobs.

  ARGV  base · slots
]]
--- @include "keys"
mark()
