--[[
  A job that BullMQ gives to a worker: what BullMQ's scripts see meanwhile, and what the worker is told
  of the job's turn.
]]
-- A sleeping job that is about to be given to the worker, unless a job that may stand before it joins
-- a line; and whether it was.
local upNext, isTaken = nil, false
-- Jobs that are ready and that BullMQ is about to change, by their key; 'charged': its start has counted.
local readyJobs

-- The time of the client, by which BullMQ ends a job. A parent that its last child lets go on is due by
-- the server's.
local endsAt = nil

-- Whether jobs sleep in lines. They wait, so the queue is not drained.
local function areAsleep()
  local last = redis.call('ZRANGE', DELAYED, '-1', '-1', 'WITHSCORES')[2]
  return last and tonumber(last) >= ASLEEP
end

-- What BullMQ's scripts call in place of `redis.call`. Behind the jobs that wait, BullMQ is given a job
-- that is ready.
local function seen(...)
  local command, key, first, second = ...
  if upNext and key == upNext.jobKey then
    -- Its hash was read, and is written once.
    if command == 'HMSET' then
      local fields, starts = upNext.fields, (upNext.ats or 0) + 1 .. ''
      local n = #fields
      fields[n + 1], fields[n + 2], fields[n + 3], fields[n + 4], fields[n + 5], fields[n + 6], fields[n + 7],
        fields[n + 8] = 'delay', '0', 'ats', starts, select(3, ...)
      return redis.call('HMSET', key, 'delay', '0', 'ats', starts, select(3, ...))
    elseif command == 'HINCRBY' and first == 'ats' then return 0
    elseif command == 'HGETALL' then return upNext.fields end
  elseif command == 'ZRANGEBYSCORE' and key == DELAYED then
    -- rule: promoted-by-the-clock-of-the-server
    second = (math.floor(nowMs()) + 1) * 0x1000 - 1
    return redis.call(command, key, first, second, select(5, ...))
  elseif (command == 'LPUSH' or command == 'RPUSH') and key == WAIT then
    if rules('join').isReady(first) then return 0 end
  elseif command == 'ZADD' then
    if key == PRIORITIZED and rules('join').isReady(second) then return 0 end
    -- rule: no-mark-where-nothing-waits
    if key == MARKER and second == '0' and (isTaken or not isAnyReady()) then return 0 end
    if endsAt and string.sub(key, -8) == ':delayed' then
      -- rule: parent-is-due-by-the-clock-of-the-server
      first = string.format('%.0f', first + (math.floor(nowMs()) - endsAt) * 0x1000)
      return redis.call(command, key, first, second)
    end
  elseif command == 'HSET' and first == 'delay' and readyJobs and readyJobs[key] == 'uncharged' then return 0
  elseif command == 'RPOPLPUSH' and key == WAIT then
    local id = redis.call(...)
    if id then return id end
    id = redis.call('HEXISTS', META, TIME_FIELD) == 1 and rules('shares').takeReady()
    if id then
      readyJobs = readyJobs or {}
      readyJobs[BASE .. id] = 'charged'
    end
    return id or false
  elseif command == 'XADD' and select(5, ...) == 'drained' then
    -- rule: drained-when-no-job-sleeps
    if areAsleep() then return false end
  elseif command == 'HMSET' and readyJobs and readyJobs[key] == 'charged' then
    return redis.call('HMSET', key, 'delay', '0', select(3, ...))
  end
  return redis.call(...)
end

-- When the time ends in which BullMQ's rate limit counts a start now.
local function limitEndsAt() return math.floor(nowMs()) + redis.call('PTTL', LIMITER) end

-- Says to a worker that is given no job what time it is, as result[5], and whether jobs sleep: result[6].
-- To one that is given a job it says there whether it is the job's turn:
-- [1] woken | yes | no | none (it has no line) · [2] its lines · [3] its line's burst
-- [4] the slots of its resource, where they are set · [5] its share
-- [6] ms that its start has counted for its tenant, if any · [7] where it may go back: see `limitEndsAt`
-- `taken`: the job, where it slept, and `burst` of its line.
local function withTurn(result, taken, burst)
  if type(result) ~= 'table' then return result end
  if type(result[1]) ~= 'table' then
    result[5], result[6] = math.floor(nowMs()), areAsleep() and 1 or 0
    return result
  end
  local job, turn = taken or woken and woken[BASE .. result[2]], 'woken'
  if not job then
    job, turn = jobOf(result[2], result[1]), 'none'
    if job.held then redis.call('HDEL', job.jobKey, 'redlock:held') end
    if job.lines then
      -- rule: fetched-job-is-at-the-head
      turn = isTurn(job.lines, placeOf(job.id, job.timestamp)) and 'yes' or 'no'
    end
  end
  if turn == 'yes' or turn == 'woken' then
    if rateOpensAt(job.lines, job.rate, true) then turn = 'no'
    elseif job.rate or limited then rules('slots').startNext(job) end
  end
  local chargedMs = readyJobs and readyJobs[job.jobKey] == 'charged' and rules('shares').QUANTUM or 0
  if chargedMs > 0 and turn == 'no' then
    rules('shares').charge(job.share, -chargedMs)
    chargedMs = 0
  end
  local told = {turn, job.lines or '', taken and burst or job.burst or '',
    (job.slots or limited or lineSlots) and job.lines and rules('slots').set(job) or '', job.share or '',
    chargedMs > 0 and chargedMs or '', (turn == 'no' or turn == 'none') and limitEndsAt() or ''}
  -- BullMQ's are 0 here: JSON of a number costs as much as a short command.
  result[3], result[4], result[5] = '', '', told
  return result
end
--- @modules join slots
--- @layer
