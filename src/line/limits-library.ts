/**
 * The limits of a resource, in Lua: part of the text with which every composed script begins.
 *
 * What is set for a resource is one field of the hash `limits`: JSON of `paused`, `asleep`, `slots`
 * and `rate`, each with the time at which it ends, if it ends. The line of such a resource has a
 * first member that is no place (MARK). So a script reads limits only where there are some, and a
 * line without limits costs no command.
 *
 * A line that is closed (paused, or asleep after a 429) or that has used its rate wakes no job.
 * Where the end is known, its first job is held: it stands in `delayed` with that time, from which
 * BullMQ takes it by itself. Its hash says `redlock:held`.
 *
 * Slots can be set for a pattern of resources too, the hash `slot-patterns`. While there is one,
 * the number that orders places has a fraction. So scripts that take a place look for patterns only
 * then, and mark the line. The mark goes when the line is empty.
 *
 * A rate is a GCRA: `rate:{resource}` has the time at which all that was started would have been
 * due at the steady rate. A start counts when a job is given to a worker, by the server's clock.
 */

/** Above all numbers that order places, and below 2^53 with a time. */
const CLOSED = (2 ** 52).toFixed(0)
/** A line that opens within this time is swept as an open one. */
const CLOSED_SOON_MS = 10_000
/** What stands still although nothing of ours closed it is found within this time. */
const CLOSED_RECHECK_MS = 60_000

export const LIMITS_LIBRARY: string = `
local MARK = '!limits'
local limited = {}

local time
local function nowMs()
  if not time then
    local now = redis.call('TIME')
    time = now[1] * 1000 + now[2] / 1000
  end
  return time
end

-- A number that only grows. It is stored with a fraction while slots are set for patterns.
local hasPatterns = false
local function nextSeq()
  local seq = tonumber(redis.call('INCRBYFLOAT', SPACE .. 'line-seq', 1))
  hasPatterns = seq % 1 > 0
  return math.floor(seq)
end

-- The slots that are set for the longest pattern of a resource, and that pattern; or nil.
local patterns
local function patternOf(resource)
  patterns = patterns or redis.call('HGETALL', SPACE .. 'slot-patterns')
  local longest, entry = '', nil
  for i = 1, #patterns, 2 do
    local pattern = patterns[i]
    if #pattern > #longest and string.sub(resource, 1, #pattern - 1) == string.sub(pattern, 1, -2) then
      local found = cjson.decode(patterns[i + 1])
      if (found['until'] or math.huge) > nowMs() then longest, entry = pattern, found end
    end
  end
  return entry, longest
end

-- What is set for a resource, also by a pattern, as JSON.
local function inForce(resource)
  local set = cjson.decode(redis.call('HGET', SPACE .. 'limits', resource) or '{}')
  if not set.slots then
    local entry, pattern = patternOf(resource)
    if entry and pattern ~= resource then entry.pattern = pattern end
    set.slots = entry
  end
  return next(set) and cjson.encode(set) or '{}'
end

-- Lines whose jobs go by a pattern are marked as those with limits are.
local function markByPattern(resources)
  for _, resource in ipairs(hasPatterns and resources or {}) do
    if patternOf(resource) then redis.call('ZADD', SPACE .. 'line:' .. resource, 'NX', '-inf', MARK) end
  end
end

-- What is in force for a resource whose line is marked; kept for this script.
local function limitsOf(resource)
  if limited[resource] then return limited[resource] end
  local limits = {slots = SLOTS}
  local set = redis.call('HGET', SPACE .. 'limits', resource)
  limits.areOwn = set ~= false
  for kind, entry in pairs(set and cjson.decode(set) or {}) do
    local ends = entry['until'] or math.huge
    if ends > nowMs() then
      -- rule: slots-that-are-set-count
      if kind == 'slots' then limits.slots, limits.areSet = entry.slots, true
      elseif kind == 'rate' then limits.rate = entry
      else limits.closedUntil = math.max(limits.closedUntil or 0, ends) end
    end
  end
  local byPattern = not limits.areSet and patternOf(resource)
  if byPattern then limits.slots, limits.areSet = byPattern.slots, true end
  -- rule: closed-line-starts-nothing
  if limits.closedUntil then limits.slots = 0 end
  limited[resource] = limits
  return limits
end

-- When a job may start by the rates of its resources, or nil for now; where \`counts\`, it starts now.
-- \`own\`: the rate that it was added with, JSON of limit, perMs, burst, cost.
local function rateOpensAt(lines, own, counts)
  if not own and next(limited) == nil then return nil end
  local limit, perMs, burst, cost
  if own then limit, perMs, burst, cost = unpack(cjson.decode(own)) end
  cost = cost or 1
  local opensAt, starts = 0, {}
  for _, resource in ipairs(cjson.decode(lines)) do
    local set = limited[resource] and limited[resource].rate
    if set then limit, perMs, burst = set.limit, set.perMs, set.burst end
    if limit then
      local key, interval = SPACE .. 'rate:' .. resource, perMs / limit
      local due = math.max(tonumber(redis.call('GET', key) or 0), nowMs()) + interval * cost
      opensAt = math.max(opensAt, due - interval * math.max(burst, cost))
      starts[#starts + 1] = {key, due}
    end
  end
  if opensAt > nowMs() then return opensAt end
  for _, start in ipairs(counts and starts or {}) do
    local due = start[2]
    -- rule: start-counts-for-the-rate
    redis.call('SET', start[1], string.format('%.3f', due), 'PX', math.ceil(due - nowMs()))
  end
end

-- Sweeps look at lines in which jobs sleep, in the order of their scores. One that is closed for
-- long has nothing to wake: its score is CLOSED and the time of the next look.
local CLOSED, CLOSED_TEXT = ${CLOSED}, '${CLOSED}'
local function closeLine(lines, at)
  if at < nowMs() + ${CLOSED_SOON_MS} or string.find(lines, '","', 1, true) then return end
  local score = CLOSED + math.floor(math.min(at, nowMs() + ${CLOSED_RECHECK_MS}))
  redis.call('ZADD', SPACE .. 'sleeping-lines', 'XX', string.format('%.0f', score), cjson.decode(lines)[1])
end

-- Puts a sleeping job where BullMQ takes it at a time, if that is known. A worker whose clock is ahead
-- took it early: it does not do so again before \`notBefore\`, by its own clock.
local notBefore = 0
local function hold(head, at)
  closeLine(head.lines, at)
  if at == math.huge then return end
  local delayed = head.base .. 'delayed'
  at = math.max(math.ceil(at), notBefore)
  if redis.call('ZADD', delayed, 'XX', 'CH', string.format('%.0f', at * 0x1000), head.id) == 0 then return end
  redis.call('HSET', head.jobKey, 'delay', math.max(1, at - math.floor(nowMs())), 'redlock:held', 1)
  local first = redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')
  redis.call('ZADD', head.base .. 'marker', first[2] / 0x1000, '1')
end
`

/** For the scripts that set limits. */
export const SET_LIMIT: string = `
-- Sets the slots of a pattern, or ends them where \`entry\` is nil. Drops patterns that have ended.
local function setPattern(pattern, entry)
  local key, seq = SPACE .. 'slot-patterns', SPACE .. 'line-seq'
  if entry then redis.call('HSET', key, pattern, cjson.encode(entry))
  elseif pattern then redis.call('HDEL', key, pattern) end
  local all, left = redis.call('HGETALL', key), 0
  for i = 1, #all, 2 do
    if (cjson.decode(all[i + 1])['until'] or math.huge) > nowMs() then left = left + 1
    else redis.call('HDEL', key, all[i]) end
  end
  local isMarked = tonumber(redis.call('GET', seq) or 0) % 1 > 0
  if isMarked ~= (left > 0) then redis.call('INCRBYFLOAT', seq, isMarked and -0.5 or 0.5) end
end

-- Sets one kind of limit, or ends it where \`entry\` is nil; drops what has ended.
-- Returns when that limit ends, or ''. Of two sleeps the later end counts.
local function setLimit(resource, kind, entry)
  local set, first = cjson.decode(redis.call('HGET', SPACE .. 'limits', resource) or '{}'), math.huge
  local isAnotherRate = kind == 'rate'
  if kind then
    local before = set[kind] and set[kind]['until']
    if entry and before and kind == 'asleep' then entry['until'] = math.max(before, entry['until']) end
    set[kind] = entry
  end
  for other, each in pairs(set) do
    local ends = each['until'] or math.huge
    if ends <= nowMs() then
      set[other] = nil
      isAnotherRate = isAnotherRate or other == 'rate'
    else first = math.min(first, ends) end
  end
  if isAnotherRate then redis.call('DEL', SPACE .. 'rate:' .. resource) end -- Its account begins anew.
  limited[resource] = nil
  local line = SPACE .. 'line:' .. resource
  if next(set) then
    redis.call('HSET', SPACE .. 'limits', resource, cjson.encode(set))
    redis.call('ZADD', line, '-inf', MARK)
  else
    redis.call('HDEL', SPACE .. 'limits', resource)
    if not patternOf(resource) then redis.call('ZREM', line, MARK) end
  end
  if first < math.huge then redis.call('ZADD', SPACE .. 'limits-until', first, resource)
  else redis.call('ZREM', SPACE .. 'limits-until', resource) end
  return entry and entry['until'] or ''
end
`
