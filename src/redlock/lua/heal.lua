--[[
  Returns  true, when healed | lost, token that holds it or '' | abandoned | unenrolled
  Keeps: gives keys back only where the resource is free and no later grant was made. Sent only by
  a holder whose extension a quorum has just confirmed, and never counted as a vote. A quarantined
  master may have forgotten a grant to an attempt that still goes on and counts it. It must not
  vote for that attempt and for this lease, so a key that is healed now votes only when the
  quarantine is over (tombstone). Every extension until then keeps the tombstone, and a key never
  outlives it, whatever the server's clock does.
]]
--- @include "record"
if not enrolled then return {'unenrolled'} end
if flagged and call('EXISTS', tombstonePrefix .. token) == 1 then return {'abandoned'} end
for i = 1, count do
  local holder, counter = unpack(call('MGET', leasePrefix .. resources[i], fencePrefix .. resources[i]))
  -- rule: heal-only-without-a-later-grant
  if tonumber(counter or '0') > tonumber(fence) then return {'lost', holder or ''} end
  -- rule: heal-only-my-key
  if holder and holder ~= token then return {'lost', holder} end
end
for i = 1, count do
  local key = leasePrefix .. resources[i]
  if not call('SET', key, token, 'PX', leaseMs, 'NX') then call('PEXPIRE', key, leaseMs, 'GT') end
  call('SET', fencePrefix .. resources[i], fence, 'PX', fenceTtlMs)
end
if quarantineMs > 0 then
  call('SET', tombstonePrefix .. token, '1', 'PX', 2 * maxLeaseMs)
  flag(2 * maxLeaseMs)
end
return true
