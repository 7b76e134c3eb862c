--[[
  KEYS  of each queue: 1 wait · 2 prioritized · 3 paused · 4 delayed · 5 active · 6 failed · 7
  completed
  ARGV  1 the least score of a sleeping job in `delayed`
  Returns  waiting, delayed, active, failed, completed of each
]]
local found = {}
for i = 1, #KEYS, 7 do
  local asleep = redis.call('ZCOUNT', KEYS[i + 3], ARGV[1], '+inf')
  local awake = redis.call('LLEN', KEYS[i]) + redis.call('ZCARD', KEYS[i + 1]) + redis.call('LLEN', KEYS[i + 2])
  table.insert(found, awake + asleep)
  table.insert(found, redis.call('ZCARD', KEYS[i + 3]) - asleep)
  table.insert(found, redis.call('LLEN', KEYS[i + 4]))
  table.insert(found, redis.call('ZCARD', KEYS[i + 5]))
  table.insert(found, redis.call('ZCARD', KEYS[i + 6]))
end
return found
