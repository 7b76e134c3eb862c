/**
 * The rules of a line, in Lua. Every composed script begins with this text.
 *
 * A line is a sorted set of places, `{space}line:{resource}`. A place is bound to one instance of a
 * job: `<job key> <length of the queue's base> <timestamp of the job>`. Its score is a number that
 * only grows, so clocks cannot change an order. A job's hash names its lines (`redlock:lines`).
 *
 * The job is the truth and a place only a hint: a place whose job is gone, finished, or another
 * instance is dead. The script that meets a dead place drops it and goes on.
 *
 * A job that waits for its turn sleeps in BullMQ's `delayed` set, in a band of scores that no delay
 * of a user reaches: from the year 2109 on. Its hash says `delay` = ASLEEP_DELAY.
 *
 * Jobs of a held line: the failed job keeps its place, and its hash says `redlock:holds`.
 */

/** What a sleeping job's hash has for `delay`: 2^42 ms. */
export const ASLEEP_DELAY_MS: number = 2 ** 42
/** The scores of sleeping jobs in `delayed`: 2^54 and more, exact in steps of four. */
const ASLEEP = (2 ** 54).toFixed(0)
/** The scores of sleeping jobs with a priority, which they begin with. */
const ASLEEP_PRIORITIZED = (1.5 * 2 ** 54).toFixed(0)

/** ARGV  1 the space of our keys · 2 slots */
export const LINE_LIBRARY: string = `
local SPACE, SLOTS = ARGV[1], tonumber(ARGV[2])
local ASLEEP_DELAY = '${ASLEEP_DELAY_MS}'
local ASLEEP, ASLEEP_PRIORITIZED = ${ASLEEP}, ${ASLEEP_PRIORITIZED}
local MAX_DEAD = 5000

local function lineKey(resource) return SPACE .. 'line:' .. resource end
local function placeOf(base, id, timestamp) return base .. id .. ' ' .. #base .. ' ' .. timestamp end
local function asleepScore(seq, priority)
  local score = ASLEEP + seq * 4
  if priority > 0 then score = ASLEEP_PRIORITIZED + priority * 0x100000000 + (seq * 4) % 0x100000000 end
  return string.format('%.0f', score)
end

-- The job of a place, or nil for a dead one.
local function jobAt(place)
  local jobKey, length, timestamp = string.match(place, '^(.*) (%d+) (%S+)$')
  if not jobKey then return nil end
  local job = redis.call('HMGET', jobKey, 'timestamp', 'finishedOn', 'delay', 'priority',
    'redlock:lines', 'redlock:holds')
  if job[1] ~= timestamp or (job[2] and not job[6]) then return nil end
  return {
    place = place, jobKey = jobKey, base = string.sub(jobKey, 1, length),
    id = string.sub(jobKey, length + 1), asleep = job[3] == ASLEEP_DELAY,
    priority = tonumber(job[4]) or 0, lines = job[5] or '[]', finished = job[2],
  }
end

-- The living jobs at the head of a line, one a slot, without the place that leaves; and whether
-- there seem to be places behind them.
-- Drops the dead places that it meets, MAX_DEAD at most.
local function headsOf(resource, leaving)
  local line = lineKey(resource)
  local last = leaving and SLOTS + 1 or SLOTS
  local dead = 0
  while true do
    local heads, more, dropped = {}, false, {}
    local places = redis.call('ZRANGE', line, 0, last)
    for _, place in ipairs(places) do
      if place ~= leaving then
        local head = #heads < SLOTS and jobAt(place)
        if head then heads[#heads + 1] = head
        elseif head == nil then dropped[#dropped + 1] = place
        else more = true end
      end
    end
    if #dropped == 0 then return heads, more end
    redis.call('ZREM', line, unpack(dropped))
    dead = dead + #dropped
    if dead >= MAX_DEAD then return heads, more end
    last = math.min(last + 100, 1000)
  end
end

-- Whether a place is among the heads of all of its lines; and whether others are behind it.
local function isTurn(lines, place, leaving)
  local followed = false
  for _, resource in ipairs(cjson.decode(lines)) do
    local first = redis.call('ZRANGE', lineKey(resource), 0, 1)
    if first[1] == place then followed = followed or first[2] ~= nil
    else
      local found = false
      local heads, more = headsOf(resource, leaving)
      for _, head in ipairs(heads) do found = found or head.place == place end
      if not found then return false end
      followed = followed or more
    end
  end
  return true, followed
end

-- Moves a sleeping head to the jobs that BullMQ may start; false where it is not its turn.
-- 'front': before the jobs that wait. 'burst': what its line has used; opaque here.
-- The first write is a ZREM. Redis at maxmemory refuses a script whose first write needs memory.
local function wake(head, front, burst, base, leaving)
  if not head.asleep then return false end
  local several = string.find(head.lines, '","', 1, true)
  if several and not isTurn(head.lines, head.place, leaving) then return false end
  local b, id = head.base, head.id
  if b == base and head.priority == 0 then
    if redis.call('ZREM', b .. 'delayed', id) == 0 then return false end
    redis.call(front and 'RPUSH' or 'LPUSH', b .. 'wait', id)
    redis.call('HSET', head.jobKey, 'delay', 0, 'redlock:burst', burst)
    return true
  end
  local keys = {}
  for i, name in ipairs({'delayed', 'wait', 'paused', 'meta', 'prioritized', 'active', 'pc', 'events', 'marker'}) do
    keys[i] = b .. name
  end
  if bullmqPromote(redis, keys, {b, id}) ~= 0 then return false end
  if front and head.priority > 0 then
    redis.call('ZADD', b .. 'prioritized', 'XX', string.format('%.0f', head.priority * 0x100000000), id)
  end
  return true
end

-- Wakes the sleeping heads of lines; returns their job keys.
local function wakeHeads(lines, front, burst, base, leaving)
  local woken = {}
  for _, resource in ipairs(lines) do
    local heads, more = headsOf(resource, leaving)
    for _, head in ipairs(heads) do
      if wake(head, front, burst, base, leaving) then
        woken[#woken + 1] = head.jobKey
        woken[head.jobKey] = {followed = more}
      end
    end
  end
  return woken
end

-- BullMQ's scripts with a job's places: a job that BullMQ puts among the waiting ones, because its
-- delay or its children have ended, takes its places now.
local function joining(base)
  local wait, prioritized = base .. 'wait', base .. 'prioritized'
  local function join(id)
    local job = redis.call('HMGET', base .. id, 'redlock:lines', 'timestamp', 'redlock:since')
    if not job[1] then return end
    local score = job[3] or redis.call('INCR', SPACE .. 'line-seq')
    for _, resource in ipairs(cjson.decode(job[1])) do
      redis.call('ZADD', lineKey(resource), 'NX', score, placeOf(base, id, job[2]))
    end
  end
  return {pcall = redis.pcall, join = join, call = function(...)
    local command, key, first, second = ...
    if (command == 'LPUSH' or command == 'RPUSH') and key == wait then join(first)
    elseif command == 'ZADD' and key == prioritized then join(second) end
    return redis.call(...)
  end}
end

-- Jobs were woken that nothing fetches in this script: an idle worker has to look.
local function mark(woken, base)
  if #woken > 0 then redis.call('ZADD', base .. 'marker', 0, '0') end
end

-- Says to the worker that is given a job whether it is the job's turn:
-- result[5] woken | yes | no | none (it has no line) · [6] its lines · [7] its line's burst
--       [8] '1' where jobs seem to wait behind it
local function withTurn(result, base, woken)
  if type(result) ~= 'table' or type(result[1]) ~= 'table' then return result end
  local job, lines, timestamp, burst = result[1], nil, nil, ''
  for i = 1, #job, 2 do
    if job[i] == 'redlock:lines' then lines = job[i + 1]
    elseif job[i] == 'timestamp' then timestamp = job[i + 1]
    elseif job[i] == 'redlock:burst' then burst = job[i + 1] end
  end
  result[6], result[7] = lines or '', burst
  local own, itsTurn, followed = woken and woken[base .. result[2]], false, false
  if own then result[5], followed = 'woken', own.followed
  elseif lines then
    itsTurn, followed = isTurn(lines, placeOf(base, result[2], timestamp))
    result[5] = itsTurn and 'yes' or 'no'
  else result[5] = 'none' end
  result[8] = followed and '1' or ''
  return result
end
`
