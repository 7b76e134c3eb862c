--[[
  ARGV  base · slots
  Returns  1 a worker that looks is given a job | 0
]]
--- @include "keys"
--- @include "could-start"
return couldStart() and 1 or 0
