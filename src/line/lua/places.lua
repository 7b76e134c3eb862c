--[[
  ARGV  base · slots · most: places to look at · resource
  Returns  places in the line, its limits (JSON), then of each living one what `Member` has (JSON):
  its state is asleep, ready, held, active, delayed, prioritized, waiting or failed
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
    local share = job.share or redis.call('HGET', job.jobKey, 'redlock:share') or nil
    local member = {jobId = job.id, addedAtMs = string.match(place, '(%S+)$'), share = share, state = 'waiting'}
    local score = not job.finishedOn and (job.held or not job.asleep) and redis.call('ZSCORE', DELAYED, job.id)
    local dueAtMs = score and math.floor(score / 4096)
    if job.finishedOn then
      member.state, member.failedReason = 'failed', redis.call('HGET', job.jobKey, 'failedReason') or ''
    elseif job.held and score then member.state, member.heldUntil = 'held', dueAtMs
    elseif job.asleep and not job.held then
      member.state = job.share and rules('shares').isReady(job.id, job.share) and 'ready' or 'asleep'
    elseif redis.call('EXISTS', job.jobKey .. ':lock') == 1 then
      member.state, member.activeSince = 'active', tonumber(redis.call('HGET', job.jobKey, 'processedOn') or nil)
    elseif redis.call('ZSCORE', PRIORITIZED, job.id) then member.state = 'prioritized'
    elseif score then
      member.state, member.delayedUntil = 'delayed', score / 4096 > nowMs() and dueAtMs or nil
    end
    found[#found + 1] = cjson.encode(member)
  end
end
return found
