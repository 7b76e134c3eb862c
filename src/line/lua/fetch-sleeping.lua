--[[
  The line's own fetch: a worker is given a job that sleeps, by BullMQ's functions, in place of the
  first job that waits.
]]
-- Gives out `view.next`; nil where it sleeps no more, or the queue gives out no job now.
local function fetchSleeping(bullmq, view, at, opts)
  local job = view.next
  local isPaused, max, duration = bullmq.getQueueMetadata(META, ACTIVE, WAIT)
  max = tonumber(max or opts.limiter and opts.limiter.max)
  if isPaused or bullmq.getRateLimitTTL(max, BASE .. 'limiter') > 0 then return nil end
  if redis.call('ZREM', DELAYED, job.id) == 0 then return nil end
  redis.call('LPUSH', ACTIVE, job.id)
  view.isTaken = true
  if job.held then redis.call('HDEL', job.jobKey, 'redlock:held') end
  return bullmq.prepareJobForProcessing(BASE, BASE .. 'limiter', BASE .. 'events', job.id, at, max,
    opts.limiter and opts.limiter.duration or duration, MARKER, opts)
end
