--[[
  Counts work for the tenant of a job.

  KEYS  1 any
  ARGV  1 space · 2 slots · 3 base · 4 its share · 5 ms
]]
--- @include "asleep"
--- @include "keys"
--- @include "limits"
--- @include "shares"
--- @include "line"
charge(ARGV[3], ARGV[4], tonumber(ARGV[5]))
