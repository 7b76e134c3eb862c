--[[
  What waits in a queue, and what keeps it waiting.

  ARGV  base · slots · most: lines to look at · isWhole: also what costs a look at each of them
  Returns  JSON: what `Census` has
]]
--- @include "line"
--- @include "ready"
--- @include "waiting"
--- @include "reason"
local leastAsleep = string.format('%.0f', ASLEEP)
local waiting, asleep = waitingJobs(WAIT, BASE .. 'paused', PRIORITIZED, DELAYED, leastAsleep)
local full = redis.call('HMGET', SPACE .. 'full', 'at', 'resource', 'refused', 'dropped')
local found = {
  lines = redis.call('ZCARD', SPACE .. 'sleeping-lines'), parked = asleep, longest = 0,
  limited = redis.call('HLEN', SPACE .. 'limits'), tenants = redis.call('ZCARD', SPACE .. 'ready'),
  refused = tonumber(full[3] or 0), dropped = tonumber(full[4] or 0), oldestMs = 0, waiting = waiting,
  runnable = redis.call('LLEN', ACTIVE),
  nowMs = math.floor(nowMs()), fullAtMs = tonumber(full[1] or 0), fullResource = full[2] or '', held = 0,
}
-- Of tenants: they stand among those that sleep, and it is their turn.
local ready = 0
for _, tenant in ipairs(redis.call('ZRANGE', SPACE .. 'ready', 0, ARGV.most - 1)) do
  ready = ready + redis.call('ZCARD', readyJobsKey(tenant))
end
found.parked = found.parked - ready
-- A paused queue starts none.
if redis.call('HEXISTS', BASE .. 'meta', 'paused') == 0 then
  found.runnable = found.runnable + redis.call('LLEN', WAIT) + redis.call('ZCARD', PRIORITIZED) + ready
end
-- Of the jobs that start next, the one that waits longest.
for _, id in ipairs({
  redis.call('LINDEX', WAIT, -1) or redis.call('LINDEX', BASE .. 'paused', -1) or '',
  redis.call('ZRANGE', PRIORITIZED, 0, 0)[1] or '',
  redis.call('ZRANGEBYSCORE', DELAYED, leastAsleep, '+inf', 'LIMIT', 0, 1)[1],
}) do
  local times = id ~= '' and redis.call('HMGET', BASE .. id, 'redlock:from', 'timestamp') or {}
  local from = tonumber(times[1] or times[2] or nil)
  if from and from < (found.oldestSinceMs or math.huge) then
    found.oldest, found.oldestSinceMs = id, from
    found.oldestMs = math.max(0, math.floor(nowMs() - from))
  end
end
for _, resource in ipairs(redis.call('ZRANGE', SPACE .. 'sleeping-lines', 0, ARGV.most - 1)) do
  local line = lineKey(resource)
  local length = redis.call('ZCARD', line)
  found.longest = math.max(found.longest, length - SLOTS)
  local places = ARGV.isWhole and redis.call('ZRANGE', line, 0, 1) or {}
  local isMarked = places[1] == MARK
  local place = places[isMarked and 2 or 1]
  local job = place and jobAt(place)
  if job and job.finishedOn then
    found.held = found.held + 1
    local behind = length - (isMarked and 2 or 1)
    if behind > (found.behind or -1) then
      found.behind, found.heldResource, found.holder = behind, resource, job.id
      found.failedReason = shortReason(redis.call('HGET', job.jobKey, 'failedReason'))
    end
  end
end
local settings = redis.call('HMGET', SPACE .. 'settings', 'LockedWorker', 'LockedQueue', 'reported')
found.ofWorker, found.ofProducer = settings[1] or nil, settings[2] or settings[3] or nil
return cjson.encode(found)
