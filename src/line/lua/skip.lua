--[[
  A failed job that holds its lines leaves them, and stays among the failed ones.

  ARGV  base · slots · id: of the job
  Returns  1 it held them | 0
]]
--- @include "line"
--- @include "leave"
local job = redis.call('HMGET', BASE .. ARGV.id, 'redlock:lines', 'timestamp', 'redlock:holds', 'finishedOn')
-- rule: only-the-failure-that-holds-is-skipped
if not (job[1] and job[3] and job[3] == job[4]) then return 0 end
redis.call('HDEL', BASE .. ARGV.id, 'redlock:holds')
leave(ARGV.id, job[1], job[2])
return 1
