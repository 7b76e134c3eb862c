--[[
  `waiter` is the names, between commas, under which the holders who ask may have waited themselves.
  Returns  true, when no other client waits for any of the resources | waited, which of them, from 1
  Keeps: changes nothing.
]]
if not flagged then return true end
--- @include "time"
local waited = {'waited'}
for i = 1, count do
  -- The place of a holder that waited lasts as long as its lease.
  for _, name in ipairs(call('ZRANGEBYSCORE', waitersPrefix .. resources[i], nowMs, '+inf', 'LIMIT', '0', '2')) do
    -- rule: holder-does-not-wait-for-itself
    if not string.find(waiter, ',' .. name .. ',', 1, true) then
      waited[#waited + 1] = i
      break
    end
  end
end
return #waited == 1 or waited
