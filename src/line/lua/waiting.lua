--[[
  How many jobs of a queue could start or sleep in line, and how many of them sleep.
]]
local function waitingJobs(wait, paused, prioritized, delayed, leastAsleep)
  local asleep = redis.call('ZCOUNT', delayed, leastAsleep, '+inf')
  return redis.call('LLEN', wait) + redis.call('LLEN', paused) + redis.call('ZCARD', prioritized) + asleep, asleep
end
