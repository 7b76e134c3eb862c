--[[
  KEYS  1 wait · 2 paused · 3 prioritized · 4 delayed · 5 active · 6 failed · 7 completed
  ARGV  1 the least score of a sleeping job in `delayed`
  Returns  waiting, delayed, active, failed, completed
]]
--- @include "line/lua/waiting"
local waiting, asleep = waitingJobs(KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1])
return {
  waiting, redis.call('ZCARD', KEYS[4]) - asleep, redis.call('LLEN', KEYS[5]),
  redis.call('ZCARD', KEYS[6]), redis.call('ZCARD', KEYS[7]),
}
