--[[
  Ends what a token has. Without a token, a waiter leaves its places.

  `leaseMs` is how long the token has a tombstone, 0 for none. `waitMs` is how long the resource is
  reserved for the next waiters; 0 for an attempt that was refused, which is not announced either:
  waiters would wake each other at once, while a quorum has the lease of another client. `waiter` is
  the name under which the holder may have waited; '' where it cannot have. Its place ends with its
  lease.
  Returns  true, when every lease was deleted | released, number of leases deleted
  Keeps: only the holder's own keys are deleted, and before anything else: waiting is advice, and
  what is wrong with it keeps no lease. With a tombstone, a grant or a heal for this token that
  still travels is refused when it arrives. A release is announced only where a client waits: with
  the beginning of the token, which tells one release from another, and the next waiters.
]]
if leaseMs ~= '0' then
  call('SET', tombstonePrefix .. token, '1', 'PX', leaseMs)
  -- rule: tombstone-is-announced
  flag(tonumber(leaseMs))
end
local deleted = 0
for i = 1, count do
  local leaseKey = leasePrefix .. resources[i]
  holders[i] = call('GET', leaseKey) == token
  -- rule: release-only-my-key
  if holders[i] then deleted = deleted + call('DEL', leaseKey) end
end
if flagged then
  -- This many waiters are named when a resource is released, and may have it for a moment.
  local NAMED = '4'
  for i = 1, count do
    local key = waitersPrefix .. resources[i]
    if waiter ~= '' then call('ZREM', key, waiter) end
    -- rule: refused-attempt-wakes-no-waiter
    if holders[i] and waitMs ~= '0' then
      --- @include "time"
      local named = table.concat(call('ZRANGEBYSCORE', key, nowMs, '+inf', 'LIMIT', '0', NAMED), ',')
      if named ~= '' then
        call('SET', nextPrefix .. resources[i], named, 'PX', waitMs)
        flag(tonumber(waitMs))
        call('PUBLISH', releasesChannel, string.sub(token, 1, 8) .. ' ' .. named .. ' ' .. resources[i])
      end
    end
  end
end
return deleted == count or {'released', deleted}
