--[[
  The rate limit of a whole queue, which is BullMQ's.
]]
-- What `queue.rateLimit` counts as started.
local LARGEST = '9007199254740991'
-- `max`: the global limit, if one is set; else each worker knows how many jobs it allows.
-- Returns  ms until it counts anew, or 0 · whether every worker with a limit starts none until then
local function queueRate(max)
  local started, restMs = redis.call('GET', LIMITER) or '0', redis.call('PTTL', LIMITER)
  return math.max(0, restMs), restMs > 0 and tonumber(started) >= tonumber(max or LARGEST)
end
