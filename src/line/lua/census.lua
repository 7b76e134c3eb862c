--[[
  KEYS  1 sleeping-lines
  ARGV  1 space · 2 slots · 3 delayed set of the queue · 4 the most lines · 5 base
  Returns  lines in which jobs sleep, sleeping jobs of the queue, sleeping jobs of the longest
  line, resources with limits, tenants with jobs that may start
]]
--- @include "asleep"
--- @include "keys"
--- @include "limits"
--- @include "shares"
--- @include "line"
local longest = 0
for _, resource in ipairs(redis.call('ZRANGE', KEYS[1], 0, tonumber(ARGV[4]) - 1)) do
  longest = math.max(longest, redis.call('ZCARD', lineKey(resource)) - SLOTS)
end
local asleep = redis.call('ZCOUNT', ARGV[3], string.format('%.0f', ASLEEP), '+inf')
return {redis.call('ZCARD', KEYS[1]), asleep, longest, redis.call('HLEN', SPACE .. 'limits'),
  redis.call('ZCARD', readyKey(ARGV[5]))}
