--[[
  Takes the place of `drain` and of `cleanJobsInSet`: sleeping jobs are put among those that wait,
  BullMQ removes what it removes, and the others sleep again.

  ARGV  base · slots · which: of the jobs that wait, 'wait' | 'prioritized' | 'both'; nil for none
        most: no more than these are removed, and the first ones are; nil or 0 for any number
]]
--- @include "keys"
--- @include "asleep-view"
--- @include "removing"
local which = ARGV.which
if not which then return bullmq(removing(viewOf()), KEYS, theirs) end
local from = which == 'prioritized' and ASLEEP_PRIORITIZED or ASLEEP
local to = which == 'wait' and '(' .. string.format('%.0f', ASLEEP_PRIORITIZED) or '+inf'
local most = (ARGV.most or 0) > 0 and ARGV.most or -1
local sleepers = redis.call('ZRANGEBYSCORE', DELAYED, string.format('%.0f', from), to, 'WITHSCORES', 'LIMIT', 0, most)
for i = 1, #sleepers, 2 do
  local id, score = sleepers[i], tonumber(sleepers[i + 1])
  redis.call('ZREM', DELAYED, id)
  if score < ASLEEP_PRIORITIZED then redis.call('LPUSH', WAIT, id)
  else redis.call('ZADD', PRIORITIZED, sleepers[i + 1], id) end
end
local result = bullmq(removing(redis), KEYS, theirs)
for i = #sleepers - 1, 1, -2 do
  local id, score = sleepers[i], tonumber(sleepers[i + 1])
  if redis.call('EXISTS', BASE .. id) == 1 then
    if score < ASLEEP_PRIORITIZED then redis.call('LREM', WAIT, 1, id)
    else redis.call('ZREM', PRIORITIZED, id) end
    redis.call('ZADD', DELAYED, sleepers[i + 1], id)
  end
end
return result
