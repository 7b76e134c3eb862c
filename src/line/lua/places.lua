--[[
  ARGV  base · slots · most: places to look at · resource · id: of a job that may stand behind them
  Returns  places in the line, its limits (JSON), its slots when it is open, then of each living one
  what `Member` has (JSON): its state is asleep, ready, held, active, delayed, prioritized, waiting or
  failed
]]
--- @include "line"
--- @include "limits-in-force"
--- @include "ready"
--- @include "reason"
local line, limit = lineKey(ARGV.resource), ARGV.most
local places = redis.call('ZRANGE', line, 0, limit)
local isMarked = places[1] == MARK
if isMarked then table.remove(places, 1) else places[limit + 1] = nil end
local _, slots, limits = headsOf(ARGV.resource, nil, false, true)
local found = {redis.call('ZCARD', line) - (isMarked and 1 or 0),
  cjson.encode((inForce(isMarked and redis.call('HGET', SPACE .. 'limits', ARGV.resource)))),
  limits and limits.closedUntil and SLOTS or slots}
local own = ARGV.id and placeOf(ARGV.id, redis.call('HGET', BASE .. ARGV.id, 'timestamp') or nil)
local rank = own and redis.call('ZRANK', line, own)
local ownAhead = rank and rank - (isMarked and 1 or 0)
if rank and ownAhead >= limit then places[limit + 1] = own end
for nr, place in ipairs(places) do
  local job = jobAt(place)
  if job then
    local share = job.share or redis.call('HGET', job.jobKey, 'redlock:share') or nil
    local weight, tenant = partsOf(share or '')
    local others = resourcesOf(redis.call('HGET', job.jobKey, 'redlock:lines') or '[]')
    for at = #others, 1, -1 do
      if others[at] == ARGV.resource then table.remove(others, at) end
    end
    local member = {jobId = job.id, addedAtMs = string.match(place, '(%S+)$'), state = 'waiting',
      share = share and {tenant = tenant, weight = weight},
      ahead = nr > limit and ownAhead or #found - 3, others = others[1] and others}
    local score = not job.finishedOn and (job.held or not job.asleep) and redis.call('ZSCORE', DELAYED, job.id)
    local isLocked = redis.call('EXISTS', job.jobKey .. ':lock') == 1
    local dueAtMs = score and score / 4096 > nowMs() and math.floor(score / 4096) or nil
    if job.finishedOn then
      member.state, member.failedReason = 'failed', shortReason(redis.call('HGET', job.jobKey, 'failedReason'))
    elseif job.held and score then member.state, member.heldUntil = 'held', dueAtMs
    elseif job.asleep and not job.held then
      member.state = job.share and rules('shares').isReady(job.id, job.share) and 'ready' or 'asleep'
    elseif isLocked or redis.call('LPOS', ACTIVE, job.id) then
      member.state, member.activeSince = 'active', tonumber(redis.call('HGET', job.jobKey, 'processedOn') or nil)
      member.lockLapsed = not isLocked or nil
    elseif redis.call('ZSCORE', PRIORITIZED, job.id) then member.state = 'prioritized'
    elseif score then member.state, member.delayedUntil = 'delayed', dueAtMs end
    found[#found + 1] = cjson.encode(member)
  end
end
return found
