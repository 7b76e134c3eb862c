--[[
  Grants resources to a token that the master has not seen before.

  `proposal` is in µs. `waitMs` is how long the caller goes on waiting under the name `waiter` when
  it is not granted; 0 and '' if it does not.
  Returns  counter, when granted | taken, holder's token, its PTTL ms, which of several resources
           | quarantined, ms to go | skewed, ms the proposal is ahead | abandoned | unenrolled
  Keeps: all resources or none. The counter of a resource grows by `TOKENS_PER_GRANT` at least with
  every grant to a new token. A repeated call for the holder's own token grants again with the same
  counter and does not lengthen the lease. A caller that goes on waiting gets its place in the same
  call, so that no release can slip in between. Places are in the order of arrival plus patience,
  `waitMs`, of which no more than the longest lease counts. No key of a holder outlasts the longest
  lease, also where the server's clock was set back. A counter that has expired was below
  `earliestUs`, so no token is smaller than one that was forgotten.
]]
local function acquire(resources, token, leaseMs, proposal, waitMs, waiter)
  -- rule: unenrolled-grants-nothing
  if not enrolled then return {'unenrolled'} end
  -- rule: quarantined-grants-nothing
  if quarantineMs > 0 then return {'quarantined', quarantineMs} end
  local aheadMs = tonumber(proposal) / 1000 - nowMs
  -- rule: proposal-far-ahead-is-refused
  if aheadMs > tonumber(maxClockSkewMs) then return {'skewed', math.ceil(aheadMs)} end
  local reserved = false
  if flagged then
    local refusals = {tombstoneKey(token)}
    for _, resource in ipairs(resources) do refusals[#refusals + 1] = nextKey(resource) end
    reserved = redis.call('EXISTS', unpack(refusals)) > 0
    -- rule: abandoned-token-is-refused
    if reserved and redis.call('EXISTS', tombstoneKey(token)) == 1 then return {'abandoned'} end
  end
  local function refuse(i, holder, holderKey)
    local resource = resources[i]
    if waitMs > 0 then
      local waiters, keptMs = waitersKey(resource), math.min(waitMs, tonumber(maxLeaseMs))
      redis.call('ZREMRANGEBYSCORE', waiters, '-inf', nowMs)
      redis.call('ZADD', waiters, 'NX', nowMs + keptMs, waiter)
      if keptMs > redis.call('PTTL', waiters) then redis.call('PEXPIRE', waiters, keptMs) end
      flag(keptMs)
    end
    if redis.call('PTTL', holderKey) > tonumber(maxLeaseMs) then redis.call('PEXPIRE', holderKey, maxLeaseMs) end
    return {'taken', holder, redis.call('PTTL', holderKey), #resources > 1 and i or nil}
  end
  local counter, mine = 0, true
  for i, resource in ipairs(resources) do
    local holder = redis.call('GET', leaseKey(resource))
    -- rule: held-resource-is-not-granted
    if holder and holder ~= token then return refuse(i, holder, leaseKey(resource)) end
    local named = reserved and not holder and redis.call('GET', nextKey(resource))
    if named and (waiter == '' or not string.find(named, waiter, 1, true)) then
      return refuse(i, RESERVED, nextKey(resource))
    end
    if holder ~= token then mine = false end
    counter = math.max(counter, tonumber(redis.call('GET', fenceKey(resource)) or '0'))
  end
  if mine then return counter end
  -- rule: token-above-forgotten-ones
  counter = math.max(counter, earliestUs)
  local fence = proposal
  -- rule: counter-grows-with-every-grant
  if counter + TOKENS_PER_GRANT > tonumber(proposal) then fence = string.format('%.0f', counter + TOKENS_PER_GRANT) end
  for _, resource in ipairs(resources) do
    redis.call('SET', leaseKey(resource), token, 'PX', leaseMs)
    redis.call('SET', fenceKey(resource), fence, 'PX', fenceTtlMs)
    if reserved then redis.call('DEL', nextKey(resource)) end
  end
  return tonumber(fence)
end
