--[[
  The usual case of `acquire`, for one resource. Returns true for the usual outcome, else a reply.

  Sees  resource, token, leaseMs, proposal, waitMs, waiter
]]
if not nowMs then readRecord() end
local proposed = tonumber(proposal)
local leaseKey, fenceKey = leasePrefix .. resource, fencePrefix .. resource
-- rule: short-acquire-in-usual-cases
if not grants or flagged or proposed > latestUs or proposed < earliestUs
  or call('SET', leaseKey, token, 'NX', 'PX', leaseMs, 'GET') then
  return procedure('acquire')({resource}, token, leaseMs, proposal, tonumber(waitMs), waiter)
end
local ok, counter = pcall(call, 'SET', fenceKey, proposal, 'PX', fenceTtlMs, 'GET')
if not ok then
  call('DEL', leaseKey)
  error(counter)
end
local least = tonumber(counter or '0') + TOKENS_PER_GRANT
if least <= proposed then return true end
call('SET', fenceKey, string.format('%.0f', least), 'PX', fenceTtlMs)
return least
