--[[
  The rules of a line.

  A line is a sorted set of places, `{space}line:{resource}`. A place is bound to one instance of a
  job: `<id> <timestamp of the job>`. Its score is a number that only grows, so clocks cannot change
  an order. A job's hash names its lines (`redlock:lines`).

  The job is the truth and a place only a hint: a place whose job is gone, finished, or another
  instance is dead. The script that meets a dead place drops it and goes on.

  Jobs of a held line: the failed job keeps its place, and its hash says `redlock:holds`.
]]
-- What a job's hash says to the rules, and what they call it.
local FIELDS = {'timestamp', 'finishedOn', 'delay', 'priority', 'ats', 'redlock:lines', 'redlock:holds',
  'redlock:held', 'redlock:rate', 'redlock:share', 'redlock:slots'}
local NAMES = {}
for _, field in ipairs(FIELDS) do NAMES[field] = string.match(field, '^redlock:(.*)') or field end

-- The job of a place, or nil for a dead one. `isWhole`: with all of its fields, for a fetch.
local function jobAt(place, isWhole)
  local id, timestamp = string.match(place, '^(.*) (%S+)$')
  if not id then return nil end
  local job = {place = place, id = id, jobKey = BASE .. id, timestamp = false, delay = false, lines = '[]',
    priority = 0, asleep = false}
  if isWhole then
    local fields = redis.call('HGETALL', job.jobKey)
    job.fields = fields
    for i = 1, #fields, 2 do
      local name = NAMES[fields[i]]
      if name then job[name] = fields[i + 1] end
    end
  else
    for i, value in ipairs(redis.call('HMGET', job.jobKey, unpack(FIELDS))) do
      if value then job[NAMES[FIELDS[i]]] = value end
    end
  end
  -- rule: dead-places-are-dropped
  if job.timestamp ~= timestamp or (job.finishedOn and not job.holds) then return nil end
  job.asleep, job.priority = job.delay == ASLEEP_DELAY or job.held, tonumber(job.priority)
  job.slots = tonumber(job.slots or nil)
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
    local heads, dropped = {}, {}
    local most = math.max(slots, 1)
    local places = redis.call('ZRANGE', line, from, from + math.min(most - 1 + ahead, 1000))
    if places[1] == MARK then
      limits = limitsOf(resource)
      slots, from = limits.slots, 1
    else
      for _, place in ipairs(places) do
        if place ~= leaving then
          -- rule: as-many-heads-as-slots
          local head = #heads < most and jobAt(place, isWhole)
          if head then heads[#heads + 1] = head
          elseif head == nil then dropped[#dropped + 1] = place end
        end
      end
      local own = heads[1] and not (limits and (limits.areSet or limits.closedUntil)) and heads[1].slots
      for _, head in ipairs(heads) do head.lineSlots = own end
      local areOther = own and own ~= slots
      if areOther then slots = own end
      if #dropped == 0 and not areOther then return heads, slots, limits end
      if #dropped > 0 then redis.call('ZREM', line, unpack(dropped)) end
      dead = dead + #dropped
      if dead >= MAX_DEAD and not areOther then return heads, slots, limits end
      if #dropped > 0 then ahead = ahead + 100 end
    end
  end
end

-- Whether a place is among the heads of all of its lines; and the slots that the first job of its line
-- was added with.
local function isTurn(lines, place, leaving, own)
  for _, resource in ipairs(resourcesOf(lines)) do
    if redis.call('ZRANGE', lineKey(resource), 0, 0)[1] ~= place then
      local found = false
      local heads, slots = headsOf(resource, leaving)
      for _, head in ipairs(heads) do found = found or head.place == place end
      own = heads[1] and heads[1].lineSlots
      -- rule: turn-only-at-the-head
      if not found or slots == 0 then return false end
    end
  end
  return true, own
end

-- Moves a sleeping head to the jobs that BullMQ may start; false where it is not its turn. One with a
-- share goes on sleeping, and is ready.
-- 'front': before the jobs that wait. 'burst': what its line has used; opaque here.
-- The first write is a ZREM. Redis at maxmemory refuses a script whose first write needs memory.
local function wake(head, front, burst, leaving)
  local several = string.find(head.lines, '","', 1, true)
  -- rule: woken-at-the-head-of-all-lines
  if several and not isTurn(head.lines, head.place, leaving) then return false end
  local id = head.id
  if head.share then makeReady(id, head.share, head.priority, burst)
  elseif head.priority == 0 then
    -- rule: first-write-needs-no-memory
    if redis.call('ZREM', DELAYED, id) == 0 then return false end
    redis.call(front and 'RPUSH' or 'LPUSH', WAIT, id)
    redis.call('HSET', head.jobKey, 'delay', 0, 'redlock:burst', burst)
  else
    local keys = {}
    for i, name in ipairs({'delayed', 'wait', 'paused', 'meta', 'prioritized', 'active', 'pc', 'events', 'marker'}) do
      keys[i] = BASE .. name
    end
    if bullmqPromote(redis, keys, {BASE, id}) ~= 0 then return false end
    if front then
      redis.call('ZADD', PRIORITIZED, 'XX', string.format('%.0f', head.priority * 0x100000000), id)
    end
  end
  if head.held then redis.call('HDEL', head.jobKey, 'redlock:held') end
  return true
end

-- When a sleeping head may start by its line's limits, or nil for now.
local function opensAt(head, limits)
  return limits and limits.closedUntil or rateOpensAt(head.lines, head.rate)
end

-- Wakes the sleeping ones of the heads of a line. One that its limits do not let start is held
-- instead. Of a line with a rate only one is woken or held: it wakes the next when it starts.
local function wakeAll(heads, limits, ...)
  local woken = {}
  for _, head in ipairs(heads) do
    if head.asleep then
      local at = opensAt(head, limits)
      if at then hold(head, at)
      elseif wake(head, ...) then woken[#woken + 1] = head end
      if at or head.rate or limits and limits.rate then break end
    end
  end
  return woken
end

-- Wakes the sleeping heads of lines; returns their job keys. The first that could go before the jobs
-- that wait is left asleep where `direct`: the fetch of the same script takes it (woken.next).
local function wakeHeads(lines, front, burst, leaving, direct)
  local woken = {burst = burst}
  for _, resource in ipairs(lines) do
    local heads, _, limits = headsOf(resource, leaving, direct)
    for i, head in ipairs(heads) do
      if direct and head.asleep and head.priority == 0
        and not string.find(head.lines, '","', 1, true) and not opensAt(head, limits) then
        direct, woken.next = false, head
        if head.rate or limits and limits.rate then heads = {} else table.remove(heads, i) end
        break
      end
    end
    for _, head in ipairs(wakeAll(heads, limits, front, burst, leaving)) do
      woken[#woken + 1] = head.jobKey
      woken[head.jobKey] = head
    end
  end
  return woken
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
    if isTurn(job[1], placeOf(id, job[2])) then makeReady(id, job[4], priority, '') end
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
        return redis.call('HMSET', key, 'delay', 0, select(3, ...))
      elseif command == 'HGETALL' then
        fields[n + 1], fields[n + 2] = 'ats', (next.ats or 0) + 1 .. ''
        return fields
      end
    elseif (command == 'LPUSH' or command == 'RPUSH') and key == WAIT then
      if joinsAsReady(first) then return 0 end
    elseif command == 'ZADD' then
      if key == PRIORITIZED and joinsAsReady(second) then return 0 end
      if key == MARKER and next and next.isFetched then return 0 end -- See `mark`.
    elseif command == 'HSET' and ready[key] and first == 'delay' then return 0
    elseif command == 'RPOPLPUSH' and key == WAIT then
      local id = redis.call(...)
      local time = not id and virtualTime()
      if not time then return id end
      id = takeReady(time)
      if id then charged[BASE .. id] = QUANTUM end
      return id or false
    elseif command == 'HMSET' and charged[key] then
      return redis.call('HMSET', key, 'delay', 0, select(3, ...))
    end
    return redis.call(...)
  end
  return view
end

-- Jobs were woken that nothing fetches in this script: an idle worker has to look.
local function mark(woken)
  if #woken > 0 then redis.call('ZADD', MARKER, 0, '0') end
end

-- A job leaves its lines, and the next is woken; returns the score of its place.
local function leave(id, lines, timestamp)
  local resources, place, score = resourcesOf(lines), placeOf(id, timestamp), nil
  for _, resource in ipairs(resources) do
    score = redis.call('ZSCORE', lineKey(resource), place) or score
    redis.call('ZREM', lineKey(resource), place)
  end
  -- rule: job-that-leaves-wakes-the-next
  mark(wakeHeads(resources, false, ''))
  return score
end

-- The slots of a job's resource, where they are set for it, or its line's jobs were added with some.
local function slotsSet(lines, own)
  if not lines then return '' end
  local limits = next(limited) and limited[resourcesOf(lines)[1]]
  return limits and limits.areSet and limits.slots .. '' or own and own .. '' or ''
end

-- A job of a limited line has started: the next one, which went on sleeping behind it, is woken or held.
local function startNext(lines, own)
  for _, resource in ipairs(resourcesOf(lines)) do
    local limits = limited[resource]
    if (limits and limits.areSet and limits.slots or own or SLOTS) > 1 then wakeHeads({resource}, false, '') end
  end
end

-- Says to the worker that is given a job whether it is the job's turn:
-- result[5] woken | yes | no | none (it has no line) · [6] its lines · [7] its line's burst
--       [8] the slots of its resource, where they are set · [9] its share
--       [10] ms that its start has counted for its tenant
local function withTurn(result, woken)
  if type(result) ~= 'table' or type(result[1]) ~= 'table' then return result end
  local jobKey = BASE .. result[2]
  local own = woken and woken[jobKey]
  local turn, lines, rate, share, slots, burst = 'none', nil, nil, nil, nil, ''
  if own then
    turn, lines, rate, share = 'woken', own.lines, own.rate, own.share
    burst, slots = woken.burst, own.lineSlots
  else
    local job, timestamp = result[1], nil
    for i = 1, #job, 2 do
      if job[i] == 'redlock:lines' then lines = job[i + 1]
      elseif job[i] == 'timestamp' then timestamp = job[i + 1]
      elseif job[i] == 'redlock:burst' then burst = job[i + 1]
      elseif job[i] == 'redlock:rate' then rate = job[i + 1]
      elseif job[i] == 'redlock:share' then share = job[i + 1]
      elseif job[i] == 'redlock:slots' then slots = tonumber(job[i + 1])
      elseif job[i] == 'redlock:held' then redis.call('HDEL', jobKey, 'redlock:held') end
    end
    if lines then
      turn, slots = isTurn(lines, placeOf(result[2], timestamp), nil, slots)
      -- rule: fetched-job-is-at-the-head
      turn = turn and 'yes' or 'no'
    end
  end
  if turn == 'yes' or turn == 'woken' then
    if rateOpensAt(lines, rate, true) then turn = 'no'
    elseif rate or next(limited) then startNext(lines, slots) end
  end
  result[5], result[6], result[7] = turn, lines or '', burst
  result[8], result[9] = slotsSet(lines, slots), share or ''
  local chargedMs = charged[jobKey] or 0
  if chargedMs > 0 and turn == 'no' then
    charge(share, -chargedMs)
    chargedMs = 0
  end
  result[10] = chargedMs
  return result
end
