--[[
  Takes the place of `moveToActive` and of `moveToDelayed`.

  ARGV  1 space · 2 slots · 3 base
  Returns  as BullMQ's, a fetched job with its turn
]]
--- @include "asleep"
local function whole()
  --- @include "keys"
  --- @include "limits"
  --- @include "shares"
  --- @include "line"
return joining, function(result) return withTurn(result, ARGV[3]) end
end
--- @include "usual-fetch"
local result = bullmq({pcall = redis.pcall, call = call}, KEYS, theirs)
local reply = not joined and usualTurn(result)
if reply then return reply end
if not joined then unusual() end
return goOn(result)
