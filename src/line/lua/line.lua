--[[
  The rules of a line.

  A line is a sorted set of places, `{space}line:{resource}`. A place is bound to one instance of a
  job: `<id> <timestamp of the job>`. Its score is a number that only grows, so clocks cannot change
  an order. A job's hash names its lines (`redlock:lines`).

  The job is the truth and a place only a hint: a place whose job is gone, finished, or another
  instance is dead. The script that meets a dead place drops it and goes on.

  `redlock:ranked`: a place that it takes is ordered by its priority.

  Jobs of a held line: the failed job keeps its place, and its hash says `redlock:holds`: the time of
  the failure that holds. A job that was tried again since holds no more.
]]
--- @include "keys"
local RESTS = 'rests' -- What `redlock:held` of a job says that has put its resources to sleep itself.
local MARK = '!limits' -- The first member of the line of a resource with limits.
local limited -- What is in force for such resources, by resource.
local lineSlots -- Slots that the first job of a line was added with, where a script has met it.
local rules -- What few jobs need, by the names of files: `rules('limits')`.
local woken -- Jobs that this script has woken, by their key.
local dead = 0 -- Places that this script has dropped.
local FEW_SLOTS = 2 -- With more, a script that moves one job does not look at all heads of its line.

-- What a job's hash says to the rules, and what they call it.
local NAMES = {
  timestamp = 'timestamp', finishedOn = 'finishedOn', delay = 'asleep', priority = 'priority', ats = 'ats',
  ['redlock:lines'] = 'lines', ['redlock:burst'] = 'burst', ['redlock:holds'] = 'holds',
  ['redlock:held'] = 'held', ['redlock:rate'] = 'rate', ['redlock:share'] = 'share',
  ['redlock:slots'] = 'slots', ['redlock:from'] = 'from',
}
local function jobOf(id, fields)
  local job = {id = id, jobKey = BASE .. id, fields = fields, place = '', timestamp = false, lines = false,
    priority = false, asleep = false}
  for i = 1, #fields, 2 do
    local name = NAMES[fields[i]]
    if name then job[name] = fields[i + 1] end
  end
  job.asleep, job.priority = job.asleep == ASLEEP_DELAY or job.held, tonumber(job.priority) or 0
  return job
end

-- The slots of a resource that a job was added with: a number, or JSON of them by resource.
local function slotsOf(job, resource)
  if not job.slots then return nil end
  return tonumber(job.slots) or cjson.decode(job.slots)[resource]
end

-- Those of them that a job has, as HGETALL has them.
local names
local function fieldsOf(id)
  if not names then
    names = {}
    for name in pairs(NAMES) do names[#names + 1] = name end
  end
  local fields, n = {}, 0
  for i, value in ipairs(redis.call('HMGET', BASE .. id, unpack(names))) do
    if value then
      fields[n + 1], fields[n + 2] = names[i], value
      n = n + 2
    end
  end
  return fields
end

-- The job of a place, or nil for a dead one. `isWhole`: with all of its fields, for a fetch. Of a job
-- that runs, or waits for a worker, its lines, rate, share and burst are not read.
local function jobAt(place, isWhole)
  local id, timestamp = string.match(place, '^(.*) (%S+)$')
  if not id then return nil end
  local jobKey, job = BASE .. id, nil
  if not isWhole then
    local read = redis.call('HMGET', jobKey, 'timestamp', 'delay', 'finishedOn', 'redlock:slots')
    if read[1] and read[2] == '0' and not read[3] then
      job = {id = id, jobKey = jobKey, timestamp = read[1], slots = read[4] or nil, asleep = false}
    end
  end
  job = job or jobOf(id, isWhole and redis.call('HGETALL', jobKey) or fieldsOf(id))
  if not job.timestamp then
    redis.call('ZREM', DELAYED, id) -- Nothing is left that could wait.
    return nil
  end
  local isThis = job.timestamp == timestamp or placeOf(id, job.timestamp) == place
  -- rule: dead-places-are-dropped
  if not isThis or (job.finishedOn and job.holds ~= job.finishedOn) then return nil end
  job.place, job.lines = place, job.lines or '[]'
  return job
end

-- The living jobs at the head of a line, one a slot, without the place that leaves; the slots in
-- force; and the limits, if there are any.
-- Slots are what is set, else what the first job was added with, else what the worker has.
-- Of a closed line, which has no slots, the first job. With `isBrief` also of a line with many slots.
-- Drops the dead places that it meets, until the script has dropped MAX_DEAD.
local function headsOf(resource, leaving, isWhole, isBrief)
  local line, slots, from, limits = lineKey(resource), SLOTS, 0, nil
  local ahead = leaving and 1 or 0
  while true do
    local heads, dropped, most = {}, nil, slots > 0 and slots or 1
    -- rule: many-slots-cost-as-few
    if isBrief and most > FEW_SLOTS then most = 1 end
    local places = redis.call('ZRANGE', line, indexText(from), indexText(from + most + ahead - 1))
    if places[1] == MARK then
      limits = rules('limits').of(resource)
      slots, from = limits.slots, 1
    else
      local count = 0
      for i = 1, #places do
        local place = places[i]
        if place ~= leaving then
          -- rule: as-many-heads-as-slots
          local head = count < most and jobAt(place, isWhole)
          if head then
            count = count + 1
            heads[count] = head
          elseif head == nil then
            dropped = dropped or {}
            dropped[#dropped + 1] = place
          end
        end
      end
      local first = heads[1]
      local own = first and first.slots and not (limits and (limits.areSet or limits.closedUntil)) and
        slotsOf(first, resource)
      if own or count > 1 or first and most < slots then
        lineSlots = lineSlots or {}
        lineSlots[resource] = own or false
      end
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
      local heads, slots, limits = headsOf(resource, leaving, false, true)
      if slots > FEW_SLOTS then
        local rank = redis.call('ZRANK', lineKey(resource), place)
        -- rule: place-before-the-last-slot-is-a-head
        found = rank and rank < slots + (limits and 1 or 0)
        heads = found and {} or headsOf(resource, leaving)
      end
      for _, head in ipairs(heads) do found = found or head.place == place end
      -- rule: turn-only-at-the-head
      if not found or slots == 0 then return false end
    end
  end
  return true
end

-- A job that was woken waits for its turn no more.
local function endDeadline(job)
  -- rule: deadline-goes-with-the-sleep
  if job.from then redis.call('ZREM', SPACE .. 'deadlines', job.place) end
end

local function areSeveral(lines) return string.find(lines, '","', 1, true) end

local function rateOpensAt(lines, own, counts)
  if own or limited then return rules('limits').rateOpensAt(lines, own, counts) end
end

-- When a sleeping head may start by its line's limits, or nil for now.
local function opensAt(head, limits)
  return limits and limits.closedUntil or rateOpensAt(head.lines, head.rate)
end

-- Wakes the sleeping ones of the heads of a line. One that its limits do not let start is held
-- instead. Of a line with a rate only one is woken or held: it wakes the next when it starts. One that
-- waits for another of its lines is passed over.
-- 'direct': the first that could go before the jobs that wait sleeps on, and the same script fetches it.
local function wakeAll(heads, limits, front, burst, leaving, direct)
  local taken
  for i = 1, #heads do
    local head = heads[i]
    if head.asleep then
      local at = opensAt(head, limits)
      if at then rules('limits').hold(head, at)
      elseif direct and not taken and head.priority == 0 and not areSeveral(head.lines) then taken = head
      else rules('wake')(head, front, burst, leaving) end
      -- rule: rated-head-that-sleeps-on-is-passed-over
      local isWoken = taken == head or woken and woken[head.jobKey]
      if at or isWoken and (head.rate or limits and limits.rate) then break end
    end
  end
  return taken
end

-- Heads of a line with many slots, among them those that sleep: those at the end, as far as they sleep.
-- Where the last one does not, one before it may sleep that has a higher priority.
-- `starts`: one of the heads has started, so no other can.
local function sleepingHeads(resource, slots, limits, leaving, isWhole, starts)
  local line, index, found = lineKey(resource), SPACE .. 'sleeping-lines', {}
  local last = slots - 1 + (limits and 1 or 0)
  local rank = leaving and redis.call('ZRANK', line, leaving)
  if rank and rank <= last then last = last + 1 end
  local hasRoom = redis.call('ZCARD', line) <= last
  if hasRoom and not redis.call('ZSCORE', index, resource) then return found end
  for at = last, hasRoom and last + 1 or last - FEW_SLOTS, -1 do
    local place = redis.call('ZRANGE', line, at, at)[1]
    local job = place ~= leaving and jobAt(place, isWhole)
    -- One that is just woken by another line of it tells nothing of those before it.
    -- rule: head-that-is-just-woken-ends-no-look
    local isUp = job and not job.asleep and not (woken and woken[job.jobKey])
    -- rule: sleeping-head-before-one-that-runs-is-found
    if isUp and (#found == 1 or starts) then return found end
    -- Of a line with a rate the first one counts.
    if place ~= leaving and not (job and job.asleep) or job and (job.rate or limits and limits.rate) then break end
    if job then table.insert(found, 1, job) end
  end
  local heads = headsOf(resource, leaving, isWhole)
  local isAsleep = false
  for _, head in ipairs(heads) do isAsleep = isAsleep or head.asleep end
  if hasRoom and not isAsleep then redis.call('ZREM', index, resource) end
  return heads
end

-- The same for the heads of lines. `moves`: a job 'ends' or 'starts'; nil where more may have changed.
local function wakeHeads(resources, front, burst, leaving, direct, moves)
  local taken
  for _, resource in ipairs(resources) do
    local heads, slots, limits = headsOf(resource, leaving, direct, moves)
    if moves and slots > FEW_SLOTS then
      heads = sleepingHeads(resource, slots, limits, leaving, direct, moves == 'starts')
    end
    taken = wakeAll(heads, limits, front, burst, leaving, direct and not taken) or taken
  end
  return taken
end
--- @modules limits shares wake
--- @layer
