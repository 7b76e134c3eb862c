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
  local function reversed(ids)
    local found = {}
    for i = #ids, 1, -1 do found[#found + 1] = ids[i] end
    return found
  end

  -- A part of a list: how many entries it has, and those from..to.
  local function part(length, key, range)
    return {count = function() return redis.call(length, key) end,
      read = function(from, to) return redis.call(range, key, from, to) end}
  end
  local lists = {
    [delayed] = {{count = delayedCount, read = part('ZCARD', delayed, 'ZRANGE').read}},
    -- The newest first: those that sleep, then those that could start.
    [wait] = {{count = asleepCount, read = function(from, to)
      local last = delayedCount() + asleepCount() - 1
      return reversed(redis.call('ZRANGE', delayed, last - to, last - from))
    end}, part('LLEN', wait, 'LRANGE')},
    [prioritized] = {part('ZCARD', prioritized, 'ZRANGE'), {count = urgentCount, read = function(from, to)
      local start = delayedCount() + asleepCount()
      return redis.call('ZRANGE', delayed, start + from, start + to)
    end}},
  }
  local reads = {}
  for key, parts in pairs(lists) do
    local function length()
      local n = 0
      for _, each in ipairs(parts) do n = n + each.count() end
      return n
    end
    -- As Redis reads a range, counted from 0.
    local function range(from, to)
      local ids, n = {}, length()
      from, to = tonumber(from), tonumber(to)
      if from < 0 then from = math.max(0, n + from) end
      if to < 0 then to = n + to end
      for _, each in ipairs(parts) do
        local count = each.count()
        local first, last = math.max(from, 0), math.min(to, count - 1)
        for _, id in ipairs(first <= last and each.read(first, last) or {}) do ids[#ids + 1] = id end
        from, to = from - count, to - count
      end
      return ids
    end
    reads['LLEN' .. key], reads['ZCARD' .. key], reads['LRANGE' .. key] = length, length, range
    reads['ZRANGE' .. key] = function(from, to, ...)
      return ... and redis.call('ZRANGE', key, from, to, ...) or range(from, to)
    end
    reads['ZREVRANGE' .. key] = function(from, to) return reversed(range(-1 - to, -1 - from)) end
  end
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
  reads['LREM' .. wait] = function(count, id)
    if scoreOf(id) >= ASLEEP then return redis.call('ZREM', delayed, id) end
    return redis.call('LREM', wait, count, id)
  end
  -- `clean` marks those that it removes, counted from the end.
  reads['LSET' .. wait] = function(at, value)
    if -at <= redis.call('LLEN', wait) then redis.call('LSET', wait, at, value) end
  end
  -- `drain` has removed all but those of schedulers, which may stand anywhere.
  reads['LTRIM' .. wait] = function()
    local ids = redis.call('LRANGE', wait, 0, -1)
    redis.call('DEL', wait)
    for _, id in ipairs(ids) do
      -- rule: drained-job-waits-no-more
      if redis.call('EXISTS', BASE .. id) == 1 then redis.call('RPUSH', wait, id) end
    end
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
