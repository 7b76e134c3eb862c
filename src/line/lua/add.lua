--[[
  Takes the place of BullMQ's scripts that add a job, for the jobs that are added in one turn of the
  event loop.

  ARGV  base · slots · replaces: which of them · within: 'added' | 'priority'
        maxLength: of a line, or nil · drops: 'oldest' | 'newest', or nil
        maxWaitMs: or nil
        jobs: of each, lines: JSON of its resources · rate: JSON · share · slots: where it has one
  `theirs`  of each job: BullMQ's three
  Returns  for each job as BullMQ's script, or [error]
           -200, resource, id of the job to drop or '': the line of that resource is full
  Keeps: a job that is stored has its lines, and its places if it may start; it sleeps where others
  are ahead of it, or where the limits of its line do not let it start. BullMQ decides whether a
  job is stored, with its rules for ids and deduplication.
]]
--- @include "line"
--- @include "order"
--- @include "removing"
--- @include "asleep-view"
--- @include "together"
-- At once, and not when a delay or its children have ended.
local mayStart = ARGV.replaces == 'addStandardJob' or ARGV.replaces == 'addPrioritizedJob'
-- Of the job that is added now. `more` is what we are told of it.
local lines, resources, more, packedOpts, jobKey, timestamp, seq, isBehind, heldUntil, sleeps
local asleepView

local function score(order)
  -- rule: priority-orders-a-line
  if ARGV.within ~= 'priority' then return order end
  local opts = cmsgpack.unpack(packedOpts)
  local priority = opts['priority'] or 0
  return priority == 0 and opts['lifo'] and -seq or rankOf(priority, seq)
end

-- BullMQ stores the job.
local function store(key, _, name, _, data, _, opts, _, _, _, delay, ...)
  jobKey = key
  redis.call('HMSET', key, 'name', name, 'data', data, 'opts', opts, 'timestamp', timestamp,
    'delay', sleeps and ASLEEP_DELAY or delay, 'redlock:lines', lines, ...)
  if mayStart and ARGV.maxWaitMs then redis.call('HSET', key, 'redlock:from', math.floor(nowMs())) end
  if ARGV.within == 'priority' then redis.call('HSET', key, 'redlock:ranked', 1) end
  if more.rate then redis.call('HSET', key, 'redlock:rate', more.rate) end
  if more.share then redis.call('HSET', key, 'redlock:share', more.share) end
  if more.slots then redis.call('HSET', key, 'redlock:slots', more.slots) end
end

-- BullMQ puts a job among those that wait: this one takes its places, and sleeps where it has to.
local function enqueue(id, ...)
  if BASE .. id ~= jobKey then return redis.call(...) end
  seq = seq or nextSeq()
  local place, order = placeOf(id, timestamp), string.format('%.0f', seq)
  local at = score(order)
  for _, resource in ipairs(resources) do redis.call('ZADD', lineKey(resource), at, place) end
  if not sleeps then return redis.call(...) end
  local command, _, priority = ...
  priority = command == 'ZADD' and math.floor(priority / 0x100000000) or 0
  redis.call('ZADD', DELAYED, asleepScore(seq, priority), id)
  for _, resource in ipairs(resources) do redis.call('ZADD', SPACE .. 'sleeping-lines', 'NX', order, resource) end
  if isBehind and ARGV.maxWaitMs then
    redis.call('ZADD', SPACE .. 'deadlines', string.format('%.0f', nowMs() + ARGV.maxWaitMs), place)
  end
  if heldUntil then rules('limits').hold({id = id, jobKey = jobKey, lines = lines}, heldUntil)
  elseif not isBehind then rules('shares').makeReady(id, more.share, priority, '') end
end

local function rcall(...)
  local command, key, first, second = ...
  if command == 'HMSET' and first == 'name' then return store(select(2, ...))
  elseif (command == 'LPUSH' or command == 'RPUSH') and key == WAIT then return enqueue(first, ...)
  elseif command == 'ZADD' and key == PRIORITIZED then return enqueue(second, ...)
  elseif command == 'ZADD' and key == MARKER and sleeps then return 0
  elseif command == 'ZREM' or command == 'ZSCORE' then
    -- rule: held-job-is-not-replaced
    if redis.call('HEXISTS', BASE .. first, 'redlock:held') == 1 then return command == 'ZREM' and 0 end
    asleepView = asleepView or viewOf()
    return asleepView.call(...)
  elseif command == 'DEL' then -- BullMQ replaces a job.
    local keys = {...}
    return removing(redis, function(view) return view.call(unpack(keys)) end)
  end
  return redis.call(...)
end
--- @bullmq functions
-- Equal for all jobs.
local maxEvents, isClosed
local function maxEventsOnce(...)
  maxEvents = maxEvents or getOrSetMaxEvents(...)
  return maxEvents
end
local function isClosedOnce(...)
  if isClosed == nil then isClosed = isQueuePausedOrMaxed(...) end
  return isClosed
end
--- @bullmq script, with maxEventsOnce for getOrSetMaxEvents, isClosedOnce for isQueuePausedOrMaxed

-- Dead places are no jobs: of a full line some are looked at, and dropped where they are dead.
local LOOKED_AT = 20
local function isFull(resource)
  local line = lineKey(resource)
  local function length()
    return redis.call('ZCARD', line) - (redis.call('ZRANGE', line, 0, 0)[1] == MARK and 1 or 0)
  end
  if length() < ARGV.maxLength then return false end
  for _, place in ipairs(redis.call('ZRANDMEMBER', line, LOOKED_AT)) do
    if place ~= MARK and not jobAt(place) then redis.call('ZREM', line, place) end
  end
  return length() >= ARGV.maxLength
end

-- A sleeping job that may be dropped, or '': none that is ready to start, none of a flow, and none
-- that BullMQ removes with its scheduler alone.
local MOST_SLOTS = 1000
local function dropped(resource)
  if not ARGV.drops then return '' end
  local range = ARGV.drops == 'oldest' and 'ZRANGE' or 'ZREVRANGE'
  for _, place in ipairs(redis.call(range, lineKey(resource), 0, MOST_SLOTS)) do
    local job = jobAt(place)
    -- rule: ready-job-is-not-dropped
    local isReady = job and job.share and rules('shares').isReady(job.id, job.share)
    -- rule: started-job-is-not-dropped
    local mayGo = job and job.asleep and job.held ~= RESTS
    if mayGo and not isReady then
      local owner = redis.call('HMGET', job.jobKey, 'parentKey', 'rjk')
      -- rule: scheduled-job-is-not-dropped
      if not (owner[1] or owner[2]) then return job.id end
    end
  end
  return ''
end

-- What a job is told that has no room; nil where it has, or BullMQ may know it already.
local function refusal(id, deduplicationKey)
  if id ~= '' and redis.call('EXISTS', BASE .. id) == 1 then return nil end
  if deduplicationKey and redis.call('EXISTS', deduplicationKey) == 1 then return nil end
  for _, resource in ipairs(resources) do
    -- rule: full-line-takes-no-job
    if isFull(resource) then
      local other = dropped(resource)
      redis.call('HINCRBY', SPACE .. 'full', other == '' and 'refused' or 'dropped', 1)
      redis.call('HSET', SPACE .. 'full', 'at', math.floor(nowMs()), 'resource', resource)
      return {-200, resource, other}
    end
  end
end

-- How many places of a line with many slots are before a job that joins it, and the heads among which
-- one may sleep.
local function aheadIn(resource, slots, marked, isHead)
  local line = lineKey(resource)
  local places = redis.call('ZCARD', line) - marked
  local behind = redis.call('ZRANGE', line, slots + marked, slots + marked)[1]
  local job = behind and jobAt(behind)
  if places < slots or not isHead and job and job.asleep then return places, {} end
  local heads = headsOf(resource)
  return #heads, heads
end

-- Whether one of the heads waits for another of its lines, or for its next attempt.
local function doesSleepOn(heads)
  for _, head in ipairs(heads) do
    if not (woken and woken[head.jobKey]) and redis.call('ZSCORE', DELAYED, head.id) then return true end
  end
  return false
end

local FIELDS = 3
local function add(i)
  local packed, data
  packed, data, packedOpts = unpack(theirs, FIELDS * i - 2, FIELDS * i)
  local job = cmsgpack.unpack(packed)
  more = ARGV.jobs[i]
  lines, resources = more.lines, resourcesOf(more.lines)
  timestamp = type(job[4]) == 'number' and string.format('%.17g', job[4]) or job[4]
  -- BullMQ counts a delay from the time of the producer, unless the user has passed another one.
  -- rule: delay-by-the-clock-of-the-server
  if ARGV.replaces == 'addDelayedJob' and not cmsgpack.unpack(packedOpts)['timestamp'] then
    job[4] = math.floor(nowMs())
  end
  local refused = ARGV.maxLength and mayStart and refusal(job[2], job[9])
  if refused then return refused end
  jobKey, seq, isBehind, heldUntil = nil, mayStart and nextSeq(), false, nil
  for _, resource in ipairs(mayStart and resources or {}) do
    local heads, slots, limits = headsOf(resource, nil, false, true)
    local ahead, marked = #heads, limits and 1 or 0
    local isHead = ARGV.within == 'priority' and
      redis.call('ZCOUNT', lineKey(resource), '-inf', score(seq)) < slots + marked
    if slots > FEW_SLOTS then ahead, heads = aheadIn(resource, slots, marked, isHead) end
    if ahead >= slots then
      wakeAll(heads, limits, false, '') -- The one ahead of it was removed.
      -- rule: slot-of-a-head-that-sleeps-on-is-free
      isBehind = isBehind or not (isHead and doesSleepOn(heads))
      if ahead == 0 then heldUntil = limits.closedUntil end
    end
  end
  if mayStart and not isBehind then
    heldUntil = rateOpensAt(lines, more.rate)
    isBehind = heldUntil ~= nil
  end
  sleeps = isBehind or more.share and mayStart
  return bullmq(KEYS, {job, data, packedOpts})
end

local replies = together(#ARGV.jobs, add)
-- One that waited for another attempt was the head of its lines.
-- rule: replaced-job-wakes-the-next
wakeHeads(left, false, '')
return replies
