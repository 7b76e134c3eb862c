--[[
  The limits of a resource.

  What is set for a resource is one field of the hash `limits`: JSON of `paused`, `asleep`, `slots`
  and `rate`, each with the time at which it ends, if it ends. The line of such a resource has a
  first member that is no place (MARK). So a script reads limits only where there are some, and a
  line without limits costs no command.

  A line that is closed (paused, or asleep after a 429) or that has used its rate wakes no job.
  Where the end is known, its first job is held: it stands in `delayed` with that time, from which
  BullMQ takes it by itself. Its hash says `redlock:held`.

  A rate is a GCRA: `rate:{resource}` has the time at which all that was started would have been
  due at the steady rate. A start counts when a job is given to a worker, by the server's clock. What
  is saved ends at the burst, except for a job that costs more: once it is the next, it saves on.

  CLOSED, 2^52, is above all numbers that order places, and below 2^53 with a time. A line that opens
  within CLOSED_SOON_MS is swept as an open one. What stands still although nothing of ours closed it
  is found within CLOSED_RECHECK_MS.
]]
--- @include "limits-in-force"
-- What is in force for a resource whose line is marked; kept for this script.
local function limitsOf(resource)
  limited = limited or {}
  if limited[resource] then return limited[resource] end
  local limits = {slots = SLOTS}
  for kind, entry in pairs((inForce(redis.call('HGET', SPACE .. 'limits', resource)))) do
    -- rule: slots-that-are-set-count
    if kind == 'slots' then limits.slots, limits.areSet = entry.slots, true
    elseif kind == 'rate' then limits.rate = entry
    else limits.closedUntil = math.max(limits.closedUntil or 0, entry['until'] or math.huge) end
  end
  -- rule: closed-line-starts-nothing
  if limits.closedUntil then limits.slots = 0 end
  limited[resource] = limits
  return limits
end

-- Redis takes no longer time.
local LONGEST_MS = 9000000000000000
-- A job that saves may find no worker when it is due. After this time it saves again.
local SAVED_TTL_MS = 86400000
-- When a job may start by the rates of its resources, or nil for now; where `counts`, it starts now.
-- `own`: the rate that it was added with, JSON of limit, perMs, burst, cost.
local function opensByRate(lines, own, counts)
  local limit, perMs, burst, cost
  if own then limit, perMs, burst, cost = unpack(cjson.decode(own)) end
  cost = cost or 1
  local startsAt, starts, savings = 0, {}, {}
  for _, resource in ipairs(resourcesOf(lines)) do
    local set = limited and limited[resource] and limited[resource].rate
    -- rule: rate-of-one-resource
    local rate = set or limit and {limit = limit, perMs = perMs, burst = burst}
    if rate then
      local key, interval = SPACE .. 'rate:' .. resource, math.min(rate.perMs / rate.limit, LONGEST_MS)
      local account = tonumber(redis.call('GET', key) or nowMs())
      -- rule: cost-above-the-burst-is-saved
      if cost > rate.burst then savings[key] = account
      else account = math.max(account, nowMs()) end
      local due = account + interval * cost
      startsAt = math.max(startsAt, due - interval * rate.burst)
      starts[#starts + 1] = {key, due}
    end
  end
  if startsAt > nowMs() then
    local keptMs = math.min(math.ceil(startsAt - nowMs()) + SAVED_TTL_MS, LONGEST_MS)
    for key, account in pairs(savings) do
      redis.call('PSETEX', key, string.format('%.0f', keptMs), string.format('%.3f', account))
    end
    return startsAt
  end
  for _, start in ipairs(counts and starts or {}) do
    local due = math.max(start[2], nowMs() + 1) -- One that has saved may start late.
    local keptMs = math.min(math.ceil(due - nowMs()), LONGEST_MS)
    -- rule: start-counts-for-the-rate
    redis.call('SET', start[1], string.format('%.3f', due), 'PX', string.format('%.0f', keptMs))
  end
end

-- Sweeps look at lines in which jobs sleep, in the order of their scores. One that is closed for
-- long has nothing to wake: its score is CLOSED and the time of the next look.
local CLOSED = 4503599627370496
local CLOSED_TEXT = '4503599627370496'
local CLOSED_SOON_MS = 10000
local CLOSED_RECHECK_MS = 60000
local function closeLine(lines, at)
  if at < nowMs() + CLOSED_SOON_MS or string.find(lines, '","', 1, true) then return end
  local score = CLOSED + math.floor(math.min(at, nowMs() + CLOSED_RECHECK_MS))
  redis.call('ZADD', SPACE .. 'sleeping-lines', 'XX', string.format('%.0f', score), resourcesOf(lines)[1])
end

-- Puts a sleeping job where BullMQ takes it at a time, if that is known.
local function hold(head, at)
  closeLine(head.lines, at)
  -- rule: held-job-stands-before-those-that-sleep
  if at >= tonumber(ASLEEP_DELAY) then return end
  at = math.ceil(at)
  if redis.call('ZADD', DELAYED, 'XX', 'CH', string.format('%.0f', at * 0x1000), head.id) == 0 then return end
  redis.call('HSET', head.jobKey, 'delay', math.max(1, at - math.floor(nowMs())), 'redlock:held', head.held or 1)
  local first = redis.call('ZRANGE', DELAYED, 0, 0, 'WITHSCORES')
  redis.call('ZADD', MARKER, first[2] / 0x1000, '1')
end
return {of = limitsOf, rateOpensAt = opensByRate, hold = hold, CLOSED = CLOSED, CLOSED_TEXT = CLOSED_TEXT}
