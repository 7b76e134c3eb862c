--[[
  Takes the place of BullMQ's scripts that add a job, for the jobs that are added in one turn of the
  event loop.

  ARGV  slots · within: 'added' | 'priority' · maxLength: of a line, or nil
        drops: 'oldest' | 'newest', or nil · job, or jobs and count: BullMQ's arguments of each
        resources: JSON · maxWaitMs: or nil
        mayStart: at once, and not when a delay or its children have ended · isDelayed
        rate: JSON · share · slots: of the job, each or nil
  `theirs` has BullMQ's arguments of all jobs.
  Returns  as BullMQ's script; for each of several jobs so, or [error]
           -200, resource, id of the job to drop or '': the line of that resource is full
  Keeps: a job that is stored has its lines, and its places if it may start; it sleeps where others
  are ahead of it, or where the limits of its line do not let it start. BullMQ decides whether a
  job is stored, with its rules for ids and deduplication.
]]
ARGV.base = cmsgpack.unpack(theirs[1])[1] -- A flow adds jobs to several queues.
--- @include "line"
--- @include "asleep-view"
--- @include "together"
local asleepView = viewOf()
local own -- The job that is added now.

-- The score of a place. 'priority': as BullMQ orders waiting jobs.
local function rank(number, packedOpts)
  -- rule: priority-orders-a-line
  if ARGV.within ~= 'priority' then return number end
  local opts = cmsgpack.unpack(packedOpts)
  local priority = opts['priority'] or 0
  if priority == 0 and opts['lifo'] then return -number end
  return priority * 0x100000000 + number % 0x100000000
end

-- BullMQ stores the job.
local function store(...)
  local fields, job = {...}, own.job
  own.jobKey = fields[2]
  local more = {['redlock:lines'] = job.resources, ['redlock:rate'] = job.rate, ['redlock:share'] = job.share,
    ['redlock:slots'] = job.slots,
    ['redlock:from'] = job.mayStart and job.maxWaitMs and math.floor(nowMs()) or nil,
    delay = own.sleeps and ASLEEP_DELAY or nil}
  for name, value in pairs(more) do fields[#fields + 1], fields[#fields + 2] = name, value end
  return redis.call(unpack(fields))
end

-- BullMQ puts a job among those that wait: this one takes its places, and sleeps where it has to.
local function enqueue(id, ...)
  local job = own.job
  if BASE .. id ~= own.jobKey then return redis.call(...) end
  local place, seq = placeOf(id, own.timestamp), own.seq or nextSeq()
  local score = string.format('%.0f', rank(seq, own.opts))
  for _, resource in ipairs(own.resources) do redis.call('ZADD', lineKey(resource), score, place) end
  if not own.sleeps then return redis.call(...) end
  local command, _, priority = ...
  priority = command == 'ZADD' and math.floor(priority / 0x100000000) or 0
  redis.call('ZADD', DELAYED, asleepScore(seq, priority), id)
  for _, resource in ipairs(own.resources) do redis.call('ZADD', KEY['sleeping-lines'], 'NX', seq, resource) end
  if job.maxWaitMs then
    redis.call('ZADD', KEY.deadlines, string.format('%.0f', nowMs() + job.maxWaitMs), place)
  end
  if own.heldUntil then limitRules().hold({id = id, jobKey = own.jobKey, lines = job.resources}, own.heldUntil)
  elseif not own.behind then shareRules().makeReady(id, job.share, priority, '') end
end

-- BullMQ counts a delay from the time of the producer. It is due that much later: where it looks for jobs
-- that are due in the same millisecond, and where it puts this one.
local function later(by, command, key, first, second, ...)
  if command == 'ZADD' then return redis.call(command, key, string.format('%.0f', first + by), second) end
  local found = redis.call(command, key, first + by, second + by, ...)
  if found[2] then found[2] = string.format('%.0f', found[2] - by) end
  return found
end

local bullmq = bullmqWith({pcall = redis.pcall, call = function(...)
  local command, key, first, second = ...
  if command == 'HMSET' and first == 'name' then return store(...)
  elseif (command == 'LPUSH' or command == 'RPUSH') and key == WAIT then return enqueue(first, ...)
  elseif command == 'ZADD' and key == PRIORITIZED then return enqueue(second, ...)
  elseif command == 'ZADD' and key == MARKER and own.sleeps then return 0
  elseif key == DELAYED and own.later and (command == 'ZADD' or command == 'ZREVRANGEBYSCORE') then
    return later(own.later, ...)
  elseif command == 'ZREM' or command == 'ZSCORE' then return asleepView.call(...) end
  return redis.call(...)
end}, {})

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

-- A sleeping job that may be dropped, or '': none that is ready to start, and none of a flow.
local MOST_SLOTS = 1000
local function dropped(resource)
  if not ARGV.drops then return '' end
  local range = ARGV.drops == 'oldest' and 'ZRANGE' or 'ZREVRANGE'
  for _, place in ipairs(redis.call(range, lineKey(resource), 0, MOST_SLOTS)) do
    local job = jobAt(place)
    -- rule: ready-job-is-not-dropped
    local isReady = job and job.share and shareRules().isReady(job.id, job.share)
    if job and job.asleep and not isReady and not redis.call('HGET', job.jobKey, 'parentKey') then return job.id end
  end
  return ''
end

-- What a job is told that has no room; nil where it has, or BullMQ may know it already.
local function refusal(resources, id, deduplicationKey)
  if id ~= '' and redis.call('EXISTS', BASE .. id) == 1 then return nil end
  if deduplicationKey and redis.call('EXISTS', deduplicationKey) == 1 then return nil end
  for _, resource in ipairs(resources) do
    -- rule: full-line-takes-no-job
    if isFull(resource) then
      local other = dropped(resource)
      redis.call('HINCRBY', KEY.full, other == '' and 'refused' or 'dropped', 1)
      redis.call('HSET', KEY.full, 'at', math.floor(nowMs()), 'resource', resource)
      return {-200, resource, other}
    end
  end
end

local function add(job, args)
  local fixed = cmsgpack.unpack(args[1])
  own = {
    job = job, resources = resourcesOf(job.resources), opts = args[3],
    timestamp = type(fixed[4]) == 'number' and string.format('%.17g', fixed[4]) or fixed[4],
  }
  -- A time that the user has passed is the user's.
  -- rule: delay-by-the-clock-of-the-server
  if job.isDelayed and not cmsgpack.unpack(args[3])['timestamp'] then
    own.later = math.floor(nowMs() - fixed[4]) * 0x1000
  end
  local refused = ARGV.maxLength and job.mayStart and refusal(own.resources, fixed[2], fixed[9])
  if refused then return refused end
  own.seq = job.mayStart and nextSeq()
  for _, resource in ipairs(job.mayStart and own.resources or {}) do
    local heads, slots, limits = headsOf(resource)
    if #heads >= slots then
      own.behind = true
      wakeAll(heads, limits, false, '') -- The one ahead of it was removed.
      if #heads == 0 then own.heldUntil = limits.closedUntil end
    end
  end
  if job.mayStart and not own.behind then
    own.heldUntil = rateOpensAt(job.resources, job.rate)
    own.behind = own.heldUntil ~= nil
  end
  own.sleeps = own.behind or job.share and job.mayStart
  return bullmq(KEYS, args)
end

if ARGV.job then return add(ARGV.job, theirs) end
return together(ARGV.jobs, function(job, i)
  return add(job, {unpack(theirs, (i - 1) * ARGV.count + 1, i * ARGV.count)})
end)
