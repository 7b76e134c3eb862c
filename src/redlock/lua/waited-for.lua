--[[
  Returns  true, when no client waits for any of the resources | waited, which of them, from 1
  Keeps: changes nothing.
]]
if not flagged then return true end
--- @include "time"
local waited = {'waited'}
for i = 1, count do
  local waiters = waitersPrefix .. resources[i]
  if call('ZRANGEBYSCORE', waiters, nowMs, '+inf', 'LIMIT', '0', '1')[1] then waited[#waited + 1] = i end
end
return #waited == 1 or waited
