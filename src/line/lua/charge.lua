--[[
  Counts work for the tenant of a job.

  ARGV  base · slots · share: of the job · workedMs
]]
--- @include "line"
rules('shares').charge(ARGV.share, ARGV.workedMs)
