--[[
  Takes the place of `drain` and of `cleanJobsInSet` for jobs that wait: sleeping jobs are put
  among those that wait, BullMQ removes what it removes, and the others sleep again.

  ARGV  1 space · 2 slots · 3 base · 4 'wait' | 'prioritized' | 'both'
]]
--- @include "asleep"
--- @include "keys"
--- @include "limits"
--- @include "shares"
--- @include "line"
local base, which = ARGV[3], ARGV[4]
local delayed, wait, prioritized = base .. 'delayed', base .. 'wait', base .. 'prioritized'
local from = which == 'prioritized' and ASLEEP_PRIORITIZED or ASLEEP
local to = which == 'wait' and '(' .. string.format('%.0f', ASLEEP_PRIORITIZED) or '+inf'
local sleepers = redis.call('ZRANGEBYSCORE', delayed, string.format('%.0f', from), to, 'WITHSCORES')
for i = 1, #sleepers, 2 do
  local id, score = sleepers[i], tonumber(sleepers[i + 1])
  redis.call('ZREM', delayed, id)
  if score < ASLEEP_PRIORITIZED then redis.call('LPUSH', wait, id)
  else redis.call('ZADD', prioritized, sleepers[i + 1], id) end
end
local result = bullmq(redis, KEYS, theirs)
for i = #sleepers - 1, 1, -2 do
  local id, score = sleepers[i], tonumber(sleepers[i + 1])
  if redis.call('EXISTS', base .. id) == 1 then
    if score < ASLEEP_PRIORITIZED then redis.call('LREM', wait, 1, id)
    else redis.call('ZREM', prioritized, id) end
    redis.call('ZADD', delayed, sleepers[i + 1], id)
  end
end
return result
