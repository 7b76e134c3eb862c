--[[
  What BullMQ lets no job of the queue start for, beside a pause.

  Returns  concurrency, the global one that is used up | rate, ms until the global one counts anew
           limiter, ms until that of its workers does: each worker knows how many it allows | '', 0
]]
--- @include "keys"
local most, max = unpack(redis.call('HMGET', META, 'concurrency', 'max'))
if most and redis.call('LLEN', ACTIVE) >= tonumber(most) then return {'concurrency', tonumber(most)} end
local started, restMs = redis.call('GET', BASE .. 'limiter'), redis.call('PTTL', BASE .. 'limiter')
if restMs <= 0 or max and tonumber(started) < tonumber(max) then return {'', 0} end
return {max and 'rate' or 'limiter', restMs}
