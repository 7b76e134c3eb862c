--[[
  `tombstoneMs` is 0 for none. `graceMs` is how long the resource is reserved for the next waiters,
  0 for not at all. `waiter` is the name under which the holder may have waited; '' or left out
  where it cannot have. Its place ends with its lease.
  Returns  number of leases deleted
  Keeps: only the holder's own keys are deleted, and before anything else: waiting is advice, and
  what is wrong with it keeps no lease. With a tombstone, a grant or a heal for this token that
  still travels is refused when it arrives. A release is announced only where a client waits: with
  the beginning of the token, which tells one release from another, and the next waiters.
]]
-- This many waiters are named when a resource is released, and may have it for a moment.
local NAMED = 4

local function release(resources, token, tombstoneMs, graceMs, waiter)
  if tombstoneMs > 0 then
    redis.call('SET', tombstoneKey(token), '1', 'PX', tombstoneMs)
    -- rule: tombstone-is-announced
    flag(tombstoneMs)
  end
  local mine, deleted = {}, 0
  for _, resource in ipairs(resources) do
    mine[resource] = redis.call('GET', leaseKey(resource)) == token
    -- rule: release-only-my-key
    if mine[resource] then deleted = deleted + redis.call('DEL', leaseKey(resource)) end
  end
  if not flagged then return deleted end
  local function first(waiters) return redis.call('ZRANGEBYSCORE', waiters, nowMs, '+inf', 'LIMIT', 0, NAMED) end
  for _, resource in ipairs(resources) do
    local key = waitersKey(resource)
    local waiters = mine[resource] and first(key)
    if waiter and waiter ~= '' and (not waiters or #waiters > 0) then
      redis.call('ZREM', key, waiter)
      waiters = waiters and first(key)
    end
    if waiters and #waiters > 0 then
      local named = table.concat(waiters, ',')
      if graceMs > 0 then
        redis.call('SET', nextKey(resource), named, 'PX', graceMs)
        flag(graceMs)
      end
      redis.call('PUBLISH', releasesChannel, string.sub(token, 1, 8) .. ' ' .. named .. ' ' .. resource)
    end
  end
  return deleted
end
