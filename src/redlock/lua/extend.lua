--[[
  Returns  extended | healed | missing | lost, token that holds it or '' | unenrolled
  Keeps: a lease is never made shorter (GT), and is not extended where a later grant was made.
  `healed` is no vote: the key is kept alive, but it was restored within the quarantine that is
  still on.
]]
local function extend(resources, token, leaseMs, fence)
  if not enrolled then return {'unenrolled'} end
  local missing = false
  for _, resource in ipairs(resources) do
    local holder = redis.call('GET', leaseKey(resource))
    local counter = tonumber(redis.call('GET', fenceKey(resource)) or '0')
    -- rule: extend-only-without-a-later-grant
    if counter > tonumber(fence) then return {'lost', holder or ''} end
    -- rule: extend-only-my-key
    if holder and holder ~= token then return {'lost', holder} end
    if not holder then missing = true end
  end
  -- rule: extend-creates-no-key
  if missing then return {'missing'} end
  for _, resource in ipairs(resources) do
    -- rule: extension-never-shortens
    redis.call('PEXPIRE', leaseKey(resource), leaseMs, 'GT')
    redis.call('SET', fenceKey(resource), fence, 'PX', fenceTtlMs)
  end
  -- rule: healed-key-does-not-extend
  if quarantineMs > 0 and flagged and redis.call('PEXPIRE', tombstoneKey(token), 2 * maxLeaseMs) == 1 then
    flag(2 * maxLeaseMs)
    return {'healed'}
  end
  return {'extended'}
end
