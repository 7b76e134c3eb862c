--[[
  A failed job that holds its lines leaves them, and stays among the failed ones.

  KEYS  1 job
  ARGV  1 space · 2 slots · 3 base · 4 job id
  Returns  1 it held them | 0
]]
--- @include "asleep"
--- @include "keys"
--- @include "limits"
--- @include "shares"
--- @include "line"
local job = redis.call('HMGET', KEYS[1], 'redlock:lines', 'timestamp', 'redlock:holds')
if not (job[1] and job[3]) then return 0 end
redis.call('HDEL', KEYS[1], 'redlock:holds')
leave(ARGV[3], ARGV[4], job[1], job[2])
return 1
