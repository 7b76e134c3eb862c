--[[
  ARGV  base · slots · most: places to look at · resource
  Returns  places in the line, its limits (JSON), then of each living one: id, timestamp, share,
  state: asleep, ready, held, active, delayed, due, prioritized, waiting, failed,
  and why it failed, since when it is active, or when it is due (ms)
]]
--- @include "line"
--- @include "limits-in-force"
local line, limit = lineKey(ARGV.resource), ARGV.most
local places = redis.call('ZRANGE', line, 0, limit)
local isMarked = places[1] == MARK
if isMarked then table.remove(places, 1) else places[limit + 1] = nil end
local found = {redis.call('ZCARD', line) - (isMarked and 1 or 0),
  inForce(isMarked and redis.call('HGET', SPACE .. 'limits', ARGV.resource))}
for _, place in ipairs(places) do
  local job = jobAt(place)
  if job then
    local state, told = 'waiting', ''
    local score = not job.finishedOn and (job.held or not job.asleep) and redis.call('ZSCORE', DELAYED, job.id)
    local dueAtMs = score and string.format('%.0f', score / 4096)
    if job.finishedOn then state, told = 'failed', redis.call('HGET', job.jobKey, 'failedReason') or ''
    elseif job.held and score then state, told = 'held', dueAtMs
    elseif job.asleep and not job.held then
      state = job.share and shareRules().isReady(job.id, job.share) and 'ready' or 'asleep'
    elseif redis.call('EXISTS', job.jobKey .. ':lock') == 1 then
      state, told = 'active', redis.call('HGET', job.jobKey, 'processedOn') or ''
    elseif redis.call('ZSCORE', PRIORITIZED, job.id) then state = 'prioritized'
    elseif score then state, told = score / 4096 > nowMs() and 'delayed' or 'due', dueAtMs
    end
    local timestamp = string.match(place, '(%S+)$')
    local share = job.share or redis.call('HGET', job.jobKey, 'redlock:share') or ''
    for _, field in ipairs({job.id, timestamp, share, state, told}) do found[#found + 1] = field end
  end
end
return found
