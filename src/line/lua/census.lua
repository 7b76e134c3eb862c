--[[
  ARGV  base · slots · most: lines to look at
  Returns  lines in which jobs sleep, sleeping jobs of the queue, sleeping jobs of the longest
  line, resources with limits, tenants with jobs that may start, adds that full lines refused, jobs
  that they dropped, jobs that run or that a free worker could start, ms for which the oldest job waits
]]
--- @include "line"
--- @include "oldest"
local longest = 0
for _, resource in ipairs(redis.call('ZRANGE', SPACE .. 'sleeping-lines', 0, ARGV.most - 1)) do
  longest = math.max(longest, redis.call('ZCARD', lineKey(resource)) - SLOTS)
end
local runnable = redis.call('LLEN', WAIT) + redis.call('ZCARD', PRIORITIZED) + redis.call('LLEN', ACTIVE)
for _, tenant in ipairs(redis.call('ZRANGE', SPACE .. 'ready', 0, ARGV.most - 1)) do
  runnable = runnable + redis.call('ZCARD', readyJobsKey(tenant))
end
local leastAsleep = string.format('%.0f', ASLEEP)
local asleep = redis.call('ZCOUNT', DELAYED, leastAsleep, '+inf')
local oldest, since = oldestWaiting(leastAsleep)
return {redis.call('ZCARD', SPACE .. 'sleeping-lines'), asleep, longest, redis.call('HLEN', SPACE .. 'limits'),
  redis.call('ZCARD', SPACE .. 'ready'), tonumber(redis.call('HGET', SPACE .. 'full', 'refused') or 0),
  tonumber(redis.call('HGET', SPACE .. 'full', 'dropped') or 0), runnable,
  oldest == '' and 0 or math.max(0, math.floor(nowMs() - since))}
