--[[
  The usual case of `extend`, for one resource. Returns true for the usual outcome, else a reply.

  Sees  resource, token, leaseMs, fence
]]
if not nowMs then readRecord() end
local leaseKey, fenceKey = leasePrefix .. resource, fencePrefix .. resource
-- rule: short-extend-in-usual-cases
if not enrolled or flagged or call('GET', leaseKey) ~= token
  or tonumber(call('GET', fenceKey) or '0') > tonumber(fence) then
  return procedure('extend')({resource}, token, leaseMs, fence)
end
call('PEXPIRE', leaseKey, leaseMs, 'GT')
call('SET', fenceKey, fence, 'PX', fenceTtlMs)
return true
