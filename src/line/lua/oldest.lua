--[[
  Of the jobs that start next, the one that waits longest. It sees the names of `keys`.
]]
-- Its id, '' for none, and from when it waits: ms.
local function oldestWaiting(leastAsleep)
  local first = {
    redis.call('LINDEX', WAIT, -1) or redis.call('LINDEX', BASE .. 'paused', -1),
    redis.call('ZRANGE', PRIORITIZED, 0, 0)[1],
    redis.call('ZRANGEBYSCORE', DELAYED, leastAsleep, '+inf', 'LIMIT', 0, 1)[1],
  }
  local oldest, since = '', math.huge
  for i = 1, 3 do
    local times = first[i] and redis.call('HMGET', BASE .. first[i], 'redlock:from', 'timestamp') or {}
    local from = tonumber(times[1] or times[2])
    if from and from < since then oldest, since = first[i], from end
  end
  return oldest, since < math.huge and since or 0
end
