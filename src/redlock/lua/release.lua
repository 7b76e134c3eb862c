--[[
  Ends what a token has. Without a token, a waiter leaves its places.

  `leaseMs` is how long the token has a tombstone, 0 for none. `waitMs` is how long the resource is
  reserved for the next waiters; 0 for an attempt that was refused, which is not announced either:
  waiters would wake each other at once, while a quorum has the lease of another client. `waiter` is
  the name under which the holder may have waited; '' where it cannot have. Its place ends with its
  lease.
  Returns  true
  Keeps: only the holder's own keys are deleted, and before anything else: waiting is advice, and
  what is wrong with it keeps no lease. With a tombstone, a grant or a heal for this token that
  still travels is refused when it arrives. A release is announced only where a client waits: with
  the beginning of the token, which tells one release from another, and the next waiters. While no
  client waits, releases behind each other end with the last of them, by two commands for them all.
]]
local before = #leaseKeys
for i = 1, count do
  leaseKeys[before + i], owners[before + i] = leasePrefix .. resources[i], token
end
-- rule: waited-for-release-is-announced
if not flagged and leaseMs == '0' and string.find(entries, '^release', at) then return TOGETHER end
local values, own = call('MGET', unpack(leaseKeys)), {}
for i, value in ipairs(values) do
  -- rule: release-only-my-key
  if value == owners[i] then own[#own + 1] = leaseKeys[i] end
end
if #own > 0 then call('DEL', unpack(own)) end
if leaseMs ~= '0' then
  call('SET', tombstonePrefix .. token, '1', 'PX', leaseMs)
  -- rule: tombstone-is-announced
  flag(tonumber(leaseMs))
end
if flagged then
  --- @include "time"
  -- Four waiters are named when a resource is released, and may have it for a moment.
  for i = 1, count do
    local key = waitersPrefix .. resources[i]
    if waiter ~= '' then call('ZREM', key, waiter) end
    -- rule: refused-attempt-wakes-no-waiter
    if values[before + i] == token and waitMs ~= '0' then
      local named = table.concat(call('ZRANGEBYSCORE', key, nowMs, '+inf', 'LIMIT', '0', '4'), ',')
      if named ~= '' then
        call('SET', nextPrefix .. resources[i], named, 'PX', waitMs)
        flag(tonumber(waitMs))
        call('PUBLISH', releasesChannel, string.sub(token, 1, 8) .. ' ' .. named .. ' ' .. resources[i])
      end
    end
  end
end
return true
