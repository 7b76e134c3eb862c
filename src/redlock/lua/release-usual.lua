--[[
  The usual case of `release`, for one resource. Returns true for the usual outcome, else a reply.

  Sees  resource, token, tombstoneMs, graceMs, waiter
]]
if flagged or tombstoneMs ~= '0' then
  return procedure('release')({resource}, token, tonumber(tombstoneMs), tonumber(graceMs), waiter)
end
local leaseKey = leasePrefix .. resource
if call('GET', leaseKey) ~= token then return 0 end
call('DEL', leaseKey)
return true
