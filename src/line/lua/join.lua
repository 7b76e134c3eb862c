--[[
  How a job takes its places when BullMQ puts it among those that wait.
]]
--- @include "order"
-- A job that BullMQ lets wait, because its delay or its children have ended, takes its places now.
local function join(id)
  local job = redis.call('HMGET', BASE .. id, 'redlock:lines', 'timestamp', 'redlock:since',
    'redlock:share', 'priority', 'redlock:ranked', 'redlock:back', 'redlock:held')
  -- rule: requeued-job-goes-on-waiting
  if job[7] then redis.call('HDEL', BASE .. id, 'redlock:back')
  elseif job[2] then redis.call('HSET', BASE .. id, 'redlock:from', math.floor(nowMs())) end
  if not job[1] then return end
  if job[8] then redis.call('ZREM', SPACE .. 'deadlines', placeOf(id, job[2])) end
  -- rule: old-place-is-taken-again-once
  if job[3] then redis.call('HDEL', BASE .. id, 'redlock:since') end
  upNext = nil
  local score = scoreFor(nextSeq(), job[3], job[6], job[5])
  for _, resource in ipairs(resourcesOf(job[1])) do
    redis.call('ZADD', lineKey(resource), 'NX', score, placeOf(id, job[2]))
  end
  return job
end

-- Whether the job has a share, and so does not go among the jobs that wait.
local function joinsAsReady(id)
  local job = join(id)
  if not job or not job[4] then return false end
  local jobKey, priority = BASE .. id, tonumber(job[5]) or 0
  readyJobs = readyJobs or {}
  readyJobs[jobKey] = 'uncharged'
  redis.call('ZADD', DELAYED, asleepScore(nextSeq(), priority), id)
  redis.call('HSET', jobKey, 'delay', ASLEEP_DELAY)
  redis.call('HDEL', jobKey, 'redlock:held')
  local isItsTurn = isTurn(job[1], placeOf(id, job[2]))
  if isItsTurn then rules('shares').makeReady(id, job[4], priority, '') end
  -- rule: due-job-of-a-closed-line-is-held
  if not isItsTurn then wakeHeads(resourcesOf(job[1]), false, '', nil, false, 'starts') end
  return true
end
return {join = join, isReady = joinsAsReady}
