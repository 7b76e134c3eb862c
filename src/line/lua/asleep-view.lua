--[[
  How BullMQ's scripts see a queue in which jobs sleep in line: a sleeping job waits. It stands in
  `wait` or `prioritized` behind the jobs that could start, and is not in `delayed`.
]]
local function viewOf()
  local wait, delayed, prioritized = WAIT, DELAYED, PRIORITIZED
  local W, P = string.format('%.0f', ASLEEP), string.format('%.0f', ASLEEP_PRIORITIZED)
  local function delayedCount() return redis.call('ZCOUNT', delayed, '-inf', '(' .. W) end
  local function asleepCount() return redis.call('ZCOUNT', delayed, W, '(' .. P) end
  local function urgentCount() return redis.call('ZCOUNT', delayed, P, '+inf') end
  local function scoreOf(id) return tonumber(redis.call('ZSCORE', delayed, id) or 0) end

  -- A range of n entries as Redis reads one, counted from 0; empty where from > to.
  local function range(from, to, n)
    from, to = tonumber(from), tonumber(to)
    if from < 0 then from = math.max(0, n + from) end
    if to < 0 then to = n + to end
    return from, math.min(to, n - 1)
  end
  local function reversed(ids)
    local found = {}
    for i = #ids, 1, -1 do found[#found + 1] = ids[i] end
    return found
  end
  -- Entries from..to of two lists that follow each other; the first has n entries.
  local function joined(from, to, n, first, second)
    local ids = from < n and from <= to and first(from, math.min(to, n - 1)) or {}
    if to >= n then
      for _, id in ipairs(second(math.max(from - n, 0), to - n)) do ids[#ids + 1] = id end
    end
    return ids
  end

  local reads = {}
  reads['LLEN' .. wait] = function() return redis.call('LLEN', wait) + asleepCount() end
  reads['ZCARD' .. delayed] = delayedCount
  reads['ZCARD' .. prioritized] = function() return redis.call('ZCARD', prioritized) + urgentCount() end
  reads['LPOS' .. wait] = function(id)
    local score = scoreOf(id)
    if score >= ASLEEP and score < ASLEEP_PRIORITIZED then return 0 end
    return redis.call('LPOS', wait, id)
  end
  reads['ZCOUNT' .. prioritized] = function(from, to)
    local asleep = redis.call('ZCOUNT', delayed, string.format('%.0f', ASLEEP_PRIORITIZED + from),
      string.format('%.0f', ASLEEP_PRIORITIZED + to))
    return redis.call('ZCOUNT', prioritized, from, to) + asleep
  end
  reads['ZSCORE' .. delayed] = function(id)
    local score = redis.call('ZSCORE', delayed, id)
    return score and tonumber(score) < ASLEEP and score or false
  end
  reads['ZSCORE' .. prioritized] = function(id)
    local score = redis.call('ZSCORE', delayed, id)
    if score and tonumber(score) >= ASLEEP_PRIORITIZED then return score end
    return redis.call('ZSCORE', prioritized, id)
  end
  reads['ZREM' .. delayed] = function(...)
    if select('#', ...) == 1 and scoreOf((...)) >= ASLEEP then return 0 end
    return redis.call('ZREM', delayed, ...)
  end
  -- The newest first: those that sleep, then those that could start.
  reads['LRANGE' .. wait] = function(from, to)
    local n, start = asleepCount(), delayedCount()
    if n == 0 then return redis.call('LRANGE', wait, from, to) end
    from, to = range(from, to, n + redis.call('LLEN', wait))
    return joined(from, to, n,
      function(a, b) return reversed(redis.call('ZRANGE', delayed, start + n - 1 - b, start + n - 1 - a)) end,
      function(a, b) return redis.call('LRANGE', wait, a, b) end)
  end
  reads['ZRANGE' .. delayed] = function(from, to, ...)
    if ... then return redis.call('ZRANGE', delayed, from, to, ...) end
    from, to = range(from, to, delayedCount())
    return from > to and {} or redis.call('ZRANGE', delayed, from, to)
  end
  reads['ZREVRANGE' .. delayed] = function(from, to)
    local n = delayedCount()
    from, to = range(from, to, n)
    return from > to and {} or reversed(redis.call('ZRANGE', delayed, n - 1 - to, n - 1 - from))
  end
  -- `clean` marks those that it removes, counted from the end.
  reads['LSET' .. wait] = function(at, value)
    if -at <= redis.call('LLEN', wait) then redis.call('LSET', wait, at, value) end
  end
  -- `drain` has removed the first ones.
  reads['LTRIM' .. wait] = function(from)
    redis.call('LTRIM', wait, math.max(from - asleepCount(), 0), -1)
  end
  local function prioritizedRange(from, to)
    local n, start = redis.call('ZCARD', prioritized), delayedCount() + asleepCount()
    return joined(from, to, n,
      function(a, b) return redis.call('ZRANGE', prioritized, a, b) end,
      function(a, b) return redis.call('ZRANGE', delayed, start + a, start + b) end)
  end
  reads['ZRANGE' .. prioritized] = function(from, to)
    return prioritizedRange(range(from, to, redis.call('ZCARD', prioritized) + urgentCount()))
  end
  reads['ZREVRANGE' .. prioritized] = function(from, to)
    local n = redis.call('ZCARD', prioritized) + urgentCount()
    from, to = range(from, to, n)
    return from > to and {} or reversed(prioritizedRange(n - 1 - to, n - 1 - from))
  end
  -- From 0 on.
  reads['ZRANGEBYSCORE' .. prioritized] = function(_, _, _, _, most)
    return reads['ZRANGE' .. prioritized](0, (most or 0) - 1)
  end
  reads['ZRANGEBYSCORE' .. delayed] = function(from, to, ...)
    if tonumber(to) == nil or tonumber(to) >= ASLEEP then to = '(' .. W end
    return redis.call('ZRANGEBYSCORE', delayed, from, to, ...)
  end

  return {pcall = redis.pcall, call = function(command, key, ...)
    local read = key and reads[command .. key]
    if read then return read(...) end
    if key == nil then return redis.call(command) end
    return redis.call(command, key, ...)
  end}
end
