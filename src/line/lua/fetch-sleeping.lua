--[[
  The line's own fetch: a worker is given a job that sleeps, by BullMQ's functions, in place of the
  first job that waits.
]]
-- Gives out `upNext`; nil where it sleeps no more, or the queue gives out no job now.
-- The last three are what BullMQ's `getQueueMetadata` says.
local function fetchSleeping(at, opts, isPaused, max, duration)
  local job = upNext
  max = tonumber(max or opts.limiter and opts.limiter.max)
  if isPaused or getRateLimitTTL(max, LIMITER) > 0 then return nil end
  if redis.call('ZREM', DELAYED, job.id) == 0 then return nil end
  redis.call('LPUSH', ACTIVE, job.id)
  isTaken = true
  if job.held then redis.call('HDEL', job.jobKey, 'redlock:held') end
  endDeadline(job)
  return prepareJobForProcessing(BASE, LIMITER, EVENTS, job.id, at, max,
    opts.limiter and opts.limiter.duration or duration, MARKER, opts)
end
