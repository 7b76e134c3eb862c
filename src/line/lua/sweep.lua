--[[
  The backstop for a head that was removed while no job of its line ran, for deadlines, and for a mark
  that is lost. One worker at a time looks, at a bounded number of lines, so its cost does not grow
  with the waiting jobs.

  Looks at lines in which jobs sleep, those first that were not looked at for longest, and wakes
  heads that sleep and jobs whose deadline has passed. At a line that is closed for long it looks
  when it opens, and now and then: see `closeLine`. It leaves a mark where a job could start: a
  worker may have taken the last one and been killed, or paused.

  ARGV  base · slots · most: lines to look at · everyMs: not where another worker did it since then
        settings: of the worker, written where there are none
]]
--- @include "line"
--- @include "order"
--- @include "set-limit"
--- @include "could-start"
-- Twice the interval that BullMQ has without the option.
local LONGEST_CHECK_MS = 60000
local limit = ARGV.most
local SWEEPER = SPACE .. 'sweeper'
if not redis.call('SET', SWEEPER, '1', 'NX', 'PX', ARGV.everyMs) then
  -- One that lives longer was written before the clock of the server was set back.
  -- rule: clock-that-was-set-back-keeps-no-turn
  if redis.call('PTTL', SWEEPER) <= ARGV.everyMs then return end
  redis.call('SET', SWEEPER, '1', 'PX', ARGV.everyMs)
end
-- BullMQ's own, which would keep all workers from looking for jobs that stall.
-- rule: clock-that-was-set-back-stops-no-check
if redis.call('PTTL', BASE .. 'stalled-check') > LONGEST_CHECK_MS then redis.call('DEL', BASE .. 'stalled-check') end
if redis.call('HEXISTS', SPACE .. 'settings', 'LockedWorker') == 0 then
  redis.call('HSET', SPACE .. 'settings', 'LockedWorker', ARGV.settings)
end
local sweepNumber = nextSeq()
local function linesBetween(from, to, most)
  return redis.call('ZRANGEBYSCORE', SPACE .. 'sleeping-lines', from, to, 'LIMIT', 0, most)
end
local closed, due = rules('limits').CLOSED_TEXT, string.format('%.0f', rules('limits').CLOSED + nowMs())
local lines = linesBetween(closed, due, math.floor(limit / 2))
for _, line in ipairs(linesBetween('-inf', '(' .. closed, limit - #lines)) do lines[#lines + 1] = line end
local looked = 0
local function mayLook() return looked + dead < MAX_DEAD end
local function sweepLine(resource)
  redis.call('ZADD', SPACE .. 'sleeping-lines', 'XX', sweepNumber, resource)
  local heads, slots, limits = headsOf(resource)
  looked = looked + #heads
  wakeAll(heads, limits, false, '')
  local places = redis.call('ZCARD', lineKey(resource)) - (limits and 1 or 0)
  -- Of a line with a rate, jobs may sleep that have a slot; not the first, which was woken or held.
  local first = heads[1]
  local isRated = limits and limits.rate or first and redis.call('HEXISTS', first.jobKey, 'redlock:rate') == 1
  if isRated then slots = math.min(slots, 1) end
  if places <= slots then redis.call('ZREM', SPACE .. 'sleeping-lines', resource) end
end
local ended = redis.call('ZRANGEBYSCORE', SPACE .. 'limits-until', '-inf', nowMs(), 'LIMIT', 0, limit)
for _, resource in ipairs(ended) do
  if mayLook() then
    setLimit(resource)
    sweepLine(resource)
  end
end
for _, resource in ipairs(lines) do
  -- rule: sweep-looks-at-some-places
  if mayLook() then sweepLine(resource) end
end
for _, place in ipairs(redis.call('ZRANGEBYSCORE', SPACE .. 'deadlines', '-inf', nowMs(), 'LIMIT', 0, limit)) do
  redis.call('ZREM', SPACE .. 'deadlines', place)
  local job = jobAt(place)
  if job and job.asleep then
    job.lines = '[]' -- Its turn does not matter: it is too late.
    rules('wake')(job, false, '')
  end
end
-- rule: lost-mark-is-left-again
if couldStart() then mark() end
