--[[
  Takes the place of BullMQ's scripts that add a job.

  ARGV  1 space · 2 slots · 3 resources (JSON) · 4 'added' | 'priority' · 5 deadline ms or ''
        6 '1' for a job that may start at once, '' for one that waits for a delay or for children
        7 its rate (JSON) or '' · 8 its share or '' · 9 its slots or ''
  Returns  as BullMQ's
  Keeps: a job that is stored has its lines, and its places if it may start; it sleeps where others
  are ahead of it, or where the limits of its line do not let it start. BullMQ decides whether a
  job is stored, with its rules for ids and deduplication.
]]
--- @include "asleep"
--- @include "keys"
--- @include "limits"
--- @include "shares"
--- @include "line"
--- @include "asleep-view"
local added = cmsgpack.unpack(theirs[1])
local base, timestamp = added[1], string.format('%.17g', added[4])
local resources, rate, behind, heldUntil = cjson.decode(ARGV[3]), ARGV[7] ~= '' and ARGV[7], false, nil
local share = ARGV[8] ~= '' and ARGV[8]
local seq = ARGV[6] == '1' and nextSeq()
for _, resource in ipairs(ARGV[6] == '1' and resources or {}) do
  local heads, _, slots, limits = headsOf(resource)
  if #heads >= slots then
    behind = true
    wakeAll(heads, limits, false, '') -- The one ahead of it was removed.
    if #heads == 0 then heldUntil = limits.closedUntil end
  end
end
if ARGV[6] == '1' and not behind then
  heldUntil = rateOpensAt(ARGV[3], rate)
  behind = heldUntil ~= nil
end
local sleeps = behind or share and ARGV[6] == '1'

-- The score of a place. 'priority': as BullMQ orders waiting jobs.
local function rank(number)
  -- rule: priority-orders-a-line
  if ARGV[4] ~= 'priority' then return number end
  local opts = cmsgpack.unpack(theirs[3])
  local priority = opts['priority'] or 0
  if priority == 0 and opts['lifo'] then return -number end
  return priority * 0x100000000 + number % 0x100000000
end

local stored
local function store(...)
  local fields = {...}
  stored = fields[2]
  fields[#fields + 1], fields[#fields + 2] = 'redlock:lines', ARGV[3]
  if rate then fields[#fields + 1], fields[#fields + 2] = 'redlock:rate', rate end
  if share then fields[#fields + 1], fields[#fields + 2] = 'redlock:share', share end
  if ARGV[9] ~= '' then fields[#fields + 1], fields[#fields + 2] = 'redlock:slots', ARGV[9] end
  if sleeps then fields[#fields + 1], fields[#fields + 2] = 'delay', ASLEEP_DELAY end
  return redis.call(unpack(fields))
end
local function enqueue(id, ...)
  if base .. id ~= stored then return redis.call(...) end
  local place = placeOf(base, id, timestamp)
  seq = seq or nextSeq()
  local score = string.format('%.0f', rank(seq))
  for _, resource in ipairs(resources) do redis.call('ZADD', lineKey(resource), score, place) end
  if not sleeps then return redis.call(...) end
  local command, _, priority = ...
  priority = command == 'ZADD' and math.floor(priority / 0x100000000) or 0
  redis.call('ZADD', base .. 'delayed', asleepScore(seq, priority), id)
  for _, resource in ipairs(resources) do
    redis.call('ZADD', SPACE .. 'sleeping-lines', 'NX', seq, resource)
  end
  if ARGV[5] ~= '' then redis.call('ZADD', SPACE .. 'line-deadlines', ARGV[5], place) end
  if heldUntil then hold({base = base, id = id, jobKey = base .. id, lines = ARGV[3]}, heldUntil)
  elseif not behind then makeReady(base, id, share, priority, '') end
end

local wait, prioritized, marker = base .. 'wait', base .. 'prioritized', base .. 'marker'
local adding = {pcall = redis.pcall, call = function(...)
  local command, key, first, second = ...
  if command == 'HMSET' then return store(...)
  elseif (command == 'LPUSH' or command == 'RPUSH') and key == wait then return enqueue(first, ...)
  elseif command == 'ZADD' and key == prioritized then return enqueue(second, ...)
  elseif command == 'ZADD' and key == marker and sleeps then return 0
  elseif command == 'ZREM' or command == 'ZSCORE' then return viewOf(base).call(...) end
  return redis.call(...)
end}
return bullmq(adding, KEYS, theirs)
