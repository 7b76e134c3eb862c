--[[
  The rules of a line.

  A line is a sorted set of places, `{space}line:{resource}`. A place is bound to one instance of a
  job: `<id> <timestamp of the job>`. Its score is a number that only grows, so clocks cannot change
  an order. A job's hash names its lines (`redlock:lines`).

  The job is the truth and a place only a hint: a place whose job is gone, finished, or another
  instance is dead. The script that meets a dead place drops it and goes on.

  Jobs of a held line: the failed job keeps its place, and its hash says `redlock:holds`.
]]
--- @include "keys"
local MARK = '!limits' -- The first member of the line of a resource with limits.
local limited = {} -- What is in force for such resources.
local notBefore = 0 -- See `hold`.
local lineSlots = {} -- Slots that the first job of a line was added with, where a script has met it.
local woken, wokenCount = {}, 0 -- Jobs that this script has woken, by their key.

local readAtMs
local function nowMs()
  if not readAtMs then
    local now = redis.call('TIME')
    readAtMs = now[1] * 1000 + now[2] / 1000
  end
  return readAtMs
end

-- A number that only grows.
local function nextSeq() return redis.call('INCR', SEQ) end

-- An idle worker has to look.
local function mark() redis.call('ZADD', MARKER, '0', '0') end

--- @module limitRules "limits"
--- @module shareRules "shares"

-- What a job's hash says to the rules, and what they call it.
local NAMES = {
  timestamp = 'timestamp', finishedOn = 'finishedOn', delay = 'asleep', priority = 'priority', ats = 'ats',
  ['redlock:lines'] = 'lines', ['redlock:burst'] = 'burst', ['redlock:holds'] = 'holds',
  ['redlock:held'] = 'held', ['redlock:rate'] = 'rate', ['redlock:share'] = 'share',
  ['redlock:slots'] = 'slots',
}
local function jobOf(id, fields)
  local job = {id = id, jobKey = BASE .. id, fields = fields, place = '', timestamp = false, lines = false,
    priority = false, asleep = false}
  for i = 1, #fields, 2 do
    local name, value = NAMES[fields[i]], fields[i + 1]
    if name and value then job[name] = value end
  end
  job.asleep, job.priority = job.asleep == ASLEEP_DELAY or job.held, tonumber(job.priority) or 0
  return job
end

-- The slots of a resource that a job was added with: a number, or JSON of them by resource.
local function slotsOf(job, resource)
  if not job.slots then return nil end
  return tonumber(job.slots) or cjson.decode(job.slots)[resource]
end

-- The job of a place, or nil for a dead one. `isWhole`: with all of its fields, for a fetch.
local function jobAt(place, isWhole)
  local id, timestamp = string.match(place, '^(.*) (%S+)$')
  if not id then return nil end
  local fields
  if isWhole then fields = redis.call('HGETALL', BASE .. id)
  else
    local names = {}
    fields = {}
    for name in pairs(NAMES) do names[#names + 1] = name end
    for i, value in ipairs(redis.call('HMGET', BASE .. id, unpack(names))) do
      fields[2 * i - 1], fields[2 * i] = names[i], value
    end
  end
  local job = jobOf(id, fields)
  -- rule: dead-places-are-dropped
  if job.timestamp ~= timestamp or (job.finishedOn and not job.holds) then return nil end
  job.place, job.lines = place, job.lines or '[]'
  return job
end

-- The living jobs at the head of a line, one a slot, without the place that leaves; the slots in
-- force; and the limits, if there are any.
-- Slots are what is set, else what the first job was added with, else what the worker has.
-- Of a closed line, which has no slots, the first job.
-- Drops the dead places that it meets, MAX_DEAD at most.
local function headsOf(resource, leaving, isWhole)
  local line, slots, from, limits = lineKey(resource), SLOTS, 0, nil
  local dead, ahead = 0, leaving and 1 or 0
  while true do
    local heads, dropped, most = {}, nil, math.max(slots, 1)
    local places = redis.call('ZRANGE', line, from, from + math.min(most - 1 + ahead, 1000))
    if places[1] == MARK then
      limits = limitRules().of(resource)
      slots, from = limits.slots, 1
    else
      for _, place in ipairs(places) do
        if place ~= leaving then
          -- rule: as-many-heads-as-slots
          local head = #heads < most and jobAt(place, isWhole)
          if head then heads[#heads + 1] = head
          elseif head == nil then
            dropped = dropped or {}
            dropped[#dropped + 1] = place
          end
        end
      end
      local own = heads[1] and not (limits and (limits.areSet or limits.closedUntil)) and slotsOf(heads[1], resource)
      if own or heads[2] then lineSlots[resource] = own or false end
      local areOther = own and own ~= slots
      if areOther then slots = own end
      if not dropped and not areOther then return heads, slots, limits end
      if dropped then
        redis.call('ZREM', line, unpack(dropped))
        dead, ahead = dead + #dropped, ahead + 100
      end
      if dead >= MAX_DEAD and not areOther then return heads, slots, limits end
    end
  end
end

-- Whether a job is among the heads of all of its lines.
local function isTurn(lines, place, leaving)
  for _, resource in ipairs(resourcesOf(lines)) do
    if redis.call('ZRANGE', lineKey(resource), 0, 0)[1] ~= place then
      local found = false
      local heads, slots = headsOf(resource, leaving)
      for _, head in ipairs(heads) do found = found or head.place == place end
      -- rule: turn-only-at-the-head
      if not found or slots == 0 then return false end
    end
  end
  return true
end

local function areSeveral(lines) return string.find(lines, '","', 1, true) end

-- Moves a sleeping head to the jobs that BullMQ may start, if it is its turn. One with a share goes on
-- sleeping, and is ready.
-- 'front': before the jobs that wait. 'burst': what its line has used; opaque here.
-- The first write is a ZREM. Redis at maxmemory refuses a script whose first write needs memory.
local function wake(head, front, burst, leaving)
  -- rule: woken-at-the-head-of-all-lines
  if areSeveral(head.lines) and not isTurn(head.lines, head.place, leaving) then return end
  local id = head.id
  if head.share then shareRules().makeReady(id, head.share, head.priority, burst)
  elseif head.priority == 0 then
    -- rule: first-write-needs-no-memory
    if redis.call('ZREM', DELAYED, id) == 0 then return end
    redis.call(front and 'RPUSH' or 'LPUSH', WAIT, id)
    redis.call('HSET', head.jobKey, 'delay', '0', 'redlock:burst', burst)
    mark()
  else
    local keys = {}
    for i, name in ipairs({'delayed', 'wait', 'paused', 'meta', 'prioritized', 'active', 'pc', 'events', 'marker'}) do
      keys[i] = BASE .. name
    end
    if bullmqPromote(redis, keys, {BASE, id}) ~= 0 then return end
    if front then
      redis.call('ZADD', PRIORITIZED, 'XX', string.format('%.0f', head.priority * 0x100000000), id)
    end
  end
  if head.held then redis.call('HDEL', head.jobKey, 'redlock:held') end
  head.burst = burst
  woken[head.jobKey], wokenCount = head, wokenCount + 1
end

local function rateOpensAt(lines, own, counts)
  if own or next(limited) then return limitRules().rateOpensAt(lines, own, counts) end
end

-- When a sleeping head may start by its line's limits, or nil for now.
local function opensAt(head, limits)
  return limits and limits.closedUntil or rateOpensAt(head.lines, head.rate)
end

-- Wakes the sleeping ones of the heads of a line. One that its limits do not let start is held
-- instead. Of a line with a rate only one is woken or held: it wakes the next when it starts.
-- 'direct': the first that could go before the jobs that wait is left asleep and returned. The fetch of
-- the same script takes it.
local function wakeAll(heads, limits, front, burst, leaving, direct)
  local taken
  for _, head in ipairs(heads) do
    if head.asleep then
      local at = opensAt(head, limits)
      if at then limitRules().hold(head, at)
      elseif direct and not taken and head.priority == 0 and not areSeveral(head.lines) then taken = head
      else wake(head, front, burst, leaving) end
      if at or head.rate or limits and limits.rate then break end
    end
  end
  return taken
end

-- The same for the heads of lines.
local function wakeHeads(resources, front, burst, leaving, direct)
  local taken
  for _, resource in ipairs(resources) do
    local heads, _, limits = headsOf(resource, leaving, direct)
    taken = wakeAll(heads, limits, front, burst, leaving, direct and not taken) or taken
  end
  return taken
end

-- BullMQ's scripts with a job's places: a job that BullMQ puts among the waiting ones, because its
-- delay or its children have ended, takes its places now. Behind the jobs that wait, BullMQ is given
-- a job that is ready.
-- `next` is a sleeping job that is about to be given to the worker, unless a job that may stand before
-- it joins a line.
local charged, ready = {}, {}
local function joining()
  local view = {pcall = redis.pcall}
  function view.join(id)
    local job = redis.call('HMGET', BASE .. id, 'redlock:lines', 'timestamp', 'redlock:since',
      'redlock:share', 'priority')
    if not job[1] then return end
    view.next = nil
    local score = job[3] or nextSeq()
    for _, resource in ipairs(resourcesOf(job[1])) do
      redis.call('ZADD', lineKey(resource), 'NX', score, placeOf(id, job[2]))
    end
    return job
  end
  -- Whether the job has a share, and so does not go among the jobs that wait.
  local function joinsAsReady(id)
    local job = view.join(id)
    if not job or not job[4] then return false end
    local jobKey, priority = BASE .. id, tonumber(job[5]) or 0
    ready[jobKey] = true
    redis.call('ZADD', DELAYED, asleepScore(nextSeq(), priority), id)
    redis.call('HSET', jobKey, 'delay', ASLEEP_DELAY)
    redis.call('HDEL', jobKey, 'redlock:held')
    if isTurn(job[1], placeOf(id, job[2])) then shareRules().makeReady(id, job[4], priority, '') end
    return true
  end
  function view.call(...)
    local command, key, first, second = ...
    local next = view.next
    if next and key == next.jobKey then
      local fields = next.fields
      local n = #fields
      if command == 'HMSET' then
        fields[n + 1], fields[n + 2] = 'delay', '0'
        fields[n + 3], fields[n + 4], fields[n + 5], fields[n + 6] = select(3, ...)
        return redis.call('HMSET', key, 'delay', '0', select(3, ...))
      elseif command == 'HGETALL' then
        fields[n + 1], fields[n + 2] = 'ats', (next.ats or 0) + 1 .. ''
        return fields
      end
    elseif (command == 'LPUSH' or command == 'RPUSH') and key == WAIT then
      if joinsAsReady(first) then return 0 end
    elseif command == 'ZADD' then
      if key == PRIORITIZED and joinsAsReady(second) then return 0 end
      if key == MARKER and view.isTaken then return 0 end -- See `finish`.
    elseif command == 'HSET' and ready[key] and first == 'delay' then return 0
    elseif command == 'RPOPLPUSH' and key == WAIT then
      local id = redis.call(...)
      if id then return id end
      id = redis.call('HEXISTS', META, TIME_FIELD) == 1 and shareRules().takeReady()
      if id then charged[BASE .. id] = true end
      return id or false
    elseif command == 'HMSET' and charged[key] then
      return redis.call('HMSET', key, 'delay', '0', select(3, ...))
    end
    return redis.call(...)
  end
  return view
end

-- A job leaves its lines, and the next is woken; returns the score of its place.
local function leave(id, lines, timestamp)
  local resources, place, score = resourcesOf(lines), placeOf(id, timestamp), nil
  for _, resource in ipairs(resources) do
    score = redis.call('ZSCORE', lineKey(resource), place) or score
    redis.call('ZREM', lineKey(resource), place)
  end
  -- rule: job-that-leaves-wakes-the-next
  wakeHeads(resources, false, '')
  return score
end

-- The slots of a resource of a job that may start, where they are set, or its line's jobs were added
-- with some.
local function slotsIn(job, resource)
  local limits = limited[resource]
  if limits and limits.areSet then return limits.slots end
  if lineSlots[resource] == nil then return slotsOf(job, resource) end
  return lineSlots[resource] or nil
end

-- The same for all of its resources: a number, JSON of them by resource, or ''.
local function slotsSet(job)
  if not (job.slots or next(limited) or next(lineSlots)) then return '' end
  local set, only, count = {}, nil, 0
  for _, resource in ipairs(resourcesOf(job.lines)) do
    count, only = count + 1, slotsIn(job, resource)
    set[resource] = only
  end
  if count == 1 then return only and only .. '' or '' end
  return next(set) and cjson.encode(set) or ''
end

-- A job of a limited line has started: the next one, which went on sleeping behind it, is woken or held.
local function startNext(job)
  for _, resource in ipairs(resourcesOf(job.lines)) do
    if (slotsIn(job, resource) or SLOTS) > 1 then wakeHeads({resource}, false, '') end
  end
end

-- Says to the worker that is given a job whether it is the job's turn, as result[5]:
-- [1] woken | yes | no | none (it has no line) · [2] its lines · [3] its line's burst
-- [4] the slots of its resource, where they are set · [5] its share
-- [6] ms that its start has counted for its tenant
-- `taken`: the job, where it slept, and `burst` of its line.
local function withTurn(result, taken, burst)
  if type(result) ~= 'table' or type(result[1]) ~= 'table' then return result end
  local job, turn = taken or woken[BASE .. result[2]], 'woken'
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
    elseif job.rate or next(limited) then startNext(job) end
  end
  local chargedMs = charged[job.jobKey] and shareRules().QUANTUM or 0
  if chargedMs > 0 and turn == 'no' then
    shareRules().charge(job.share, -chargedMs)
    chargedMs = 0
  end
  result[5] = {turn, job.lines or '', taken and burst or job.burst or '',
    job.lines and slotsSet(job) or '', job.share or '', chargedMs}
  return result
end
