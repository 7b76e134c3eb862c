--[[
  ARGV  base · slots · most: lines to look at
  Returns  lines in which jobs sleep, sleeping jobs of the queue, sleeping jobs of the longest
  line, resources with limits, tenants with jobs that may start, adds that full lines refused, jobs
  that they dropped
]]
--- @include "line"
local longest = 0
for _, resource in ipairs(redis.call('ZRANGE', SLEEPING_LINES, 0, ARGV.most - 1)) do
  longest = math.max(longest, redis.call('ZCARD', lineKey(resource)) - SLOTS)
end
local asleep = redis.call('ZCOUNT', DELAYED, string.format('%.0f', ASLEEP), '+inf')
return {redis.call('ZCARD', SLEEPING_LINES), asleep, longest, redis.call('HLEN', LIMITS),
  redis.call('ZCARD', READY), tonumber(redis.call('HGET', FULL, 'refused') or 0),
  tonumber(redis.call('HGET', FULL, 'dropped') or 0)}
