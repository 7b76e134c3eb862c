--[[
  KEYS  1 line
  ARGV  1 space · 2 slots · 3 the most places · 4 resource
  Returns  places in the line, its limits (JSON), then base, id, timestamp, share, state of each
  living one: asleep, ready, held, active, delayed, due, prioritized, waiting, failed
]]
--- @include "asleep"
--- @include "keys"
--- @include "limits"
--- @include "shares"
--- @include "line"
local line, limit = KEYS[1], tonumber(ARGV[3])
local places = redis.call('ZRANGE', line, 0, limit)
local isMarked = places[1] == MARK
if isMarked then table.remove(places, 1) else places[limit + 1] = nil end
local found = {redis.call('ZCARD', line) - (isMarked and 1 or 0),
  isMarked and redis.call('HGET', SPACE .. 'limits', ARGV[4]) or '{}'}
for _, place in ipairs(places) do
  local job = jobAt(place)
  if job then
    local state = 'waiting'
    if job.finished then state = 'failed'
    elseif job.held and redis.call('ZSCORE', job.base .. 'delayed', job.id) then state = 'held'
    elseif job.asleep and not job.held then
      local _, tenant = partsOf(job.share or '')
      local isReady = tenant and redis.call('ZSCORE', readyJobsKey(job.base, tenant), job.id)
      state = isReady and 'ready' or 'asleep'
    elseif redis.call('EXISTS', job.jobKey .. ':lock') == 1 then state = 'active'
    elseif redis.call('ZSCORE', job.base .. 'prioritized', job.id) then state = 'prioritized'
    else
      local score = redis.call('ZSCORE', job.base .. 'delayed', job.id)
      if score then state = score / 4096 > nowMs() and 'delayed' or 'due' end
    end
    local timestamp = string.match(place, '(%S+)$')
    for _, field in ipairs({job.base, job.id, timestamp, job.share or '', state}) do found[#found + 1] = field end
  end
end
return found
