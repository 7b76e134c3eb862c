--[[
  What BullMQ lets no job of the queue start for, beside a pause.

  Returns  concurrency, the global one that is used up | rate, ms until the global one counts anew
           limiter, ms until that of its workers does | '', 0
]]
--- @include "keys"
--- @include "queue-rate"
local most, max = unpack(redis.call('HMGET', META, 'concurrency', 'max'))
if most and redis.call('LLEN', ACTIVE) >= tonumber(most) then return {'concurrency', tonumber(most)} end
local restMs, isUsed = queueRate(max)
if max and isUsed then return {'rate', restMs} end
if not max and restMs > 0 then return {'limiter', restMs} end
return {'', 0}
