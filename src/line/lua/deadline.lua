--[[
  How long a job may wait.

  ARGV  maxWaitMs: nil for no limit · dueAt: ms from which it waits, where the queue's Redis has not
        noted it
  Keeps: since when a parent waits whose last child was of another queue.
]]
-- `from`: since when the job could start, as its hash says. Returns the time at which it has waited too
-- long, or nil, and since when. A parent whose last child was of another queue could start a moment ago.
local function deadlineFrom(id, from)
  local jobKey = BASE .. id
  -- rule: wait-of-a-parent-begins-without-its-children
  if not from and redis.call('EXISTS', jobKey .. ':processed', jobKey .. ':failed') > 0 then
    from = math.floor(nowMs())
    redis.call('HSET', jobKey, 'redlock:from', from)
  end
  -- rule: wait-is-counted-from-when-it-could-start
  return ARGV.maxWaitMs and (from or ARGV.dueAt) + ARGV.maxWaitMs, from
end
