--[[
  Returns  healed | lost, token that holds it or '' | abandoned | unenrolled
  Keeps: gives keys back only where the resource is free and no later grant was made. Sent only by
  a holder whose extension a quorum has just confirmed, and never counted as a vote. A quarantined
  master may have forgotten a grant to an attempt that still goes on and counts it. It must not
  vote for that attempt and for this lease, so a key that is healed now votes only when the
  quarantine is over (tombstone). Every extension until then keeps the tombstone, and a key never
  outlives it, whatever the server's clock does.
]]
local function heal(resources, token, leaseMs, fence)
  if not enrolled then return {'unenrolled'} end
  if flagged and redis.call('EXISTS', tombstoneKey(token)) == 1 then return {'abandoned'} end
  for _, resource in ipairs(resources) do
    local holder = redis.call('GET', leaseKey(resource))
    local counter = tonumber(redis.call('GET', fenceKey(resource)) or '0')
    -- rule: heal-only-without-a-later-grant
    if counter > tonumber(fence) then return {'lost', holder or ''} end
    -- rule: heal-only-my-key
    if holder and holder ~= token then return {'lost', holder} end
  end
  for _, resource in ipairs(resources) do
    if redis.call('SET', leaseKey(resource), token, 'PX', leaseMs, 'NX') == false then
      redis.call('PEXPIRE', leaseKey(resource), leaseMs, 'GT')
    end
    redis.call('SET', fenceKey(resource), fence, 'PX', fenceTtlMs)
  end
  if quarantineMs > 0 then
    redis.call('SET', tombstoneKey(token), '1', 'PX', 2 * maxLeaseMs)
    flag(2 * maxLeaseMs)
  end
  return {'healed'}
end
