--[[
  KEYS  1 any
  ARGV  1 space · 2 slots · 3 base. All jobs of the queue are gone: so are its
  tenants.
]]
--- @include "asleep"
--- @include "keys"
--- @include "limits"
--- @include "shares"
--- @include "line"
for _, tenant in ipairs(redis.call('ZRANGE', readyKey(ARGV[3]), 0, -1)) do
  redis.call('DEL', readyJobsKey(ARGV[3], tenant))
end
redis.call('DEL', readyKey(ARGV[3]), sharesKey(ARGV[3]))
