--[[
  Counts work for the tenant of a job.

  ARGV  base · slots · share: of the job · workedMs
]]
--- @include "keys"
--- @include "limits"
--- @include "shares"
--- @include "line"
charge(ARGV.share, ARGV.workedMs)
