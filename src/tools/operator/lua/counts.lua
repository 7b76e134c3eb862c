--[[
  KEYS  of each queue: 1 wait · 2 prioritized · 3 paused · 4 delayed · 5 active · 6 failed · 7
  completed
  ARGV  1 the least score of a sleeping job in `delayed`
  Returns  waiting, delayed, active, failed, completed of each
]]
--- @include "line/lua/waiting"
local found = {}
for i = 1, #KEYS, 7 do
  local waiting, asleep = waitingJobs(KEYS[i], KEYS[i + 2], KEYS[i + 1], KEYS[i + 3], ARGV[1])
  table.insert(found, waiting)
  table.insert(found, redis.call('ZCARD', KEYS[i + 3]) - asleep)
  table.insert(found, redis.call('LLEN', KEYS[i + 4]))
  table.insert(found, redis.call('ZCARD', KEYS[i + 5]))
  table.insert(found, redis.call('ZCARD', KEYS[i + 6]))
end
return found
