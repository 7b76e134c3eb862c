--[[
  Returns  true, when extended | healed | missing | lost, token that holds it or '' | unenrolled
  Keeps: a lease is never made shorter (GT), and is not extended where a later grant was made.
  `healed` is no vote: the key is kept alive, but it was restored within the quarantine that is
  still on.
]]
--- @include "record"
if not enrolled then return {'unenrolled'} end
local missing = false
for i = 1, count do
  local holder, counter = unpack(call('MGET', leasePrefix .. resources[i], fencePrefix .. resources[i]))
  -- rule: extend-only-without-a-later-grant
  if tonumber(counter or '0') > tonumber(fence) then return {'lost', holder or ''} end
  -- rule: extend-only-my-key
  if holder and holder ~= token then return {'lost', holder} end
  if not holder then missing = true end
end
-- rule: extend-creates-no-key
if missing then return {'missing'} end
for i = 1, count do
  -- rule: extension-never-shortens
  call('PEXPIRE', leasePrefix .. resources[i], leaseMs, 'GT')
  call('SET', fencePrefix .. resources[i], fence, 'PX', fenceTtlMs)
end
-- rule: healed-key-does-not-extend
if quarantineMs > 0 and flagged and call('PEXPIRE', tombstonePrefix .. token, 2 * maxLeaseMs) == 1 then
  flag(2 * maxLeaseMs)
  return {'healed'}
end
return true
