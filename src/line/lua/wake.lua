--[[
  How a sleeping job is woken.
]]
--- @include "order"
-- Moves a sleeping head to the jobs that BullMQ may start, if it is its turn. One with a share goes on
-- sleeping, and is ready.
-- 'front': before the jobs that wait. 'burst': what its line has used; opaque here.
-- The first write is a ZREM. Redis at maxmemory refuses a script whose first write needs memory.
local function wake(head, front, burst, leaving)
  -- rule: woken-at-the-head-of-all-lines
  if areSeveral(head.lines) and not isTurn(head.lines, head.place, leaving) then return end
  local id = head.id
  if head.share then
    -- rule: held-job-with-a-share-is-woken
    if head.held and not rules('shares').sleepAgain(id, head.priority) then return end
    rules('shares').makeReady(id, head.share, head.priority, burst)
  else
    -- rule: first-write-needs-no-memory
    if redis.call('ZREM', DELAYED, id) == 0 then return end
    if head.priority == 0 then redis.call(front and 'RPUSH' or 'LPUSH', WAIT, id)
    else redis.call('ZADD', PRIORITIZED, rankOf(head.priority, front and 0 or redis.call('INCR', BASE .. 'pc')), id) end
    redis.call('HSET', head.jobKey, 'delay', '0', 'redlock:burst', burst)
    mark()
  end
  if head.held then redis.call('HDEL', head.jobKey, 'redlock:held') end
  endDeadline(head)
  head.burst, woken = burst, woken or {}
  woken[head.jobKey] = head
end
return wake
