--[[
  A job that has to wait for its turn sleeps behind the others, if it has to. Part of `fetch`.

  ARGV  base · slots · id, timestamp: of the job · resources: JSON
        maxWaitMs: nil for no limit · dueAt: ms from which it waits, where the queue's Redis has not
        noted it · limitEndsAt: as the worker was told it with the job
  Returns  -100, the slots that are set, since when it could start: it is its turn |
           -101 it is not, and too late to wait | as BullMQ's
  Keeps: the lines of a job stay those that it joined first. A parked job is woken by the job that
  leaves before it: both looks are in one script. Since when a parent waits whose last child was of
  another queue.
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

-- 1: a job that could not start has waited for too long. 0: it may go back for a while.
local function isLate()
  local deadline = deadlineFrom(ARGV.id, redis.call('HGET', BASE .. ARGV.id, 'redlock:from'))
  return deadline and deadline <= nowMs() and 1 or 0
end

local ROUNDED_MS = 10
local function park()
  local id = ARGV.id
  local jobKey, place = BASE .. id, placeOf(id, ARGV.timestamp)
  local job = redis.call('HMGET', jobKey, 'redlock:lines', 'redlock:since', 'priority', 'timestamp',
    'redlock:rate', 'redlock:slots', 'redlock:from', 'redlock:ranked')
  if not job[4] then return -1 end
  local deadline, from = deadlineFrom(id, job[7])
  local lines = job[1] or ARGV.resources
  local resources = resourcesOf(lines)
  local seq = nextSeq()
  local score = scoreFor(seq, job[2], job[8], job[3])
  for _, resource in ipairs(resources) do redis.call('ZADD', lineKey(resource), 'NX', score, place) end
  if not job[1] then redis.call('HSET', jobKey, 'redlock:lines', lines) end
  -- It was in its lines before, and has come back: the one behind it may have started meanwhile.
  local overtaken = false
  if job[2] then
    redis.call('HDEL', jobKey, 'redlock:since')
    for _, resource in ipairs(resources) do
      local second = redis.call('ZRANGE', lineKey(resource), 1, 1)[1]
      local other = second and jobAt(second)
      if other and redis.call('EXISTS', other.jobKey .. ':lock') == 1 then overtaken = true end
    end
  end
  local heldUntil = nil
  local isItsTurn, own = false, {lines = lines, slots = job[6] or nil}
  if not overtaken then isItsTurn = isTurn(lines, place) end
  -- rule: parked-only-behind-others
  if isItsTurn then
    heldUntil = rateOpensAt(lines, job[5], true)
    if not heldUntil then
      if job[5] or limited then rules('slots').startNext(own) end
      return {-100, rules('slots').set(own), from}
    end
  end
  if deadline and deadline <= nowMs() then return -101 end
  local result = bullmq(KEYS, theirs)
  if type(result) == 'number' and result < 0 then return result end
  redis.call('ZADD', DELAYED, 'XX', asleepScore(seq, tonumber(job[3]) or 0), id)
  redis.call('HSET', jobKey, 'delay', ASLEEP_DELAY)
  for _, resource in ipairs(resources) do
    redis.call('ZADD', SPACE .. 'sleeping-lines', 'NX', seq, resource)
  end
  if deadline then
    redis.call('ZADD', SPACE .. 'deadlines', string.format('%.0f', deadline), place)
    redis.call('HSET', jobKey, 'redlock:from', math.floor(deadline - ARGV.maxWaitMs))
  end
  -- A start in vain uses no token of a rate limit. That of a time that has ended is gone.
  local used = tonumber(redis.call('GET', LIMITER) or 0)
  -- rule: token-goes-back-to-its-own-time
  local isItsTime = limitEndsAt() < ARGV.limitEndsAt + ROUNDED_MS
  if isItsTime and used > 0 and used < 9007199254740991 then redis.call('DECR', LIMITER) end
  if heldUntil then rules('limits').hold({id = id, jobKey = jobKey, lines = lines}, heldUntil)
  elseif not overtaken then wakeHeads(resources, false, '') end
  return withTurn(result)
end
