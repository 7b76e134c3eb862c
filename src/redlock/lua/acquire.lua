--[[
  Grants resources to a token that the master has not seen before.

  `fence` is the proposal, in µs. `waitMs` is how long the caller goes on waiting under the name
  `waiter` when it is not granted; 0 and '' if it does not.
  Returns  true, when granted with the proposal as counter | granted, counter
           | taken, holder's token, its PTTL ms, which of several resources | quarantined, ms to go
           | skewed, ms the proposal is ahead | abandoned | unenrolled
  Keeps: all resources or none. The counter of a resource grows by `TOKENS_PER_GRANT` at least with
  every grant to a new token, and no error makes it smaller. A repeated call for the holder's own
  token grants again with the same counter and does not lengthen the lease. A caller that goes on
  waiting gets its place in the same call, so that no release can slip in between. Places are in the
  order of arrival plus patience, `waitMs`, of which no more than the longest lease counts. A caller
  that waits longer and asks again keeps its place for two to four seconds, in front of those that
  came later. Equal places go by name, which is by arrival. No key of a holder outlasts the longest
  lease, also where the server's clock was set back. A token is larger than every counter that may
  have expired, so none is smaller than one that was forgotten.
]]
--- @include "record"
-- rule: unenrolled-grants-nothing
if not enrolled then return {'unenrolled'} end
-- rule: quarantined-grants-nothing
if quarantineMs > 0 then return {'quarantined', quarantineMs} end
local RESERVED = 'reserved@waiting clients'
local TOKENS_PER_GRANT = 64
-- Not `tonumber`, which reads a text twice.
local proposed = fence + 0
-- No clock of a client is beyond it, and a counter that has expired was as much behind it as it lives.
local latestUs = (nowMs + maxClockSkewMs) * 1000
-- rule: proposal-far-ahead-is-refused
if proposed > latestUs then return {'skewed', math.ceil(proposed / 1000 - nowMs)} end
-- rule: abandoned-token-is-refused
if flagged and call('EXISTS', tombstonePrefix .. token) == 1 then return {'abandoned'} end
local mine = true
for i = 1, count do
  local holderKey = leasePrefix .. resources[i]
  -- rule: held-resource-is-not-granted
  local holder = call('SET', holderKey, token, 'NX', 'PX', leaseMs, 'GET')
  holders[i] = holder
  if not holder and flagged then
    local nextKey = nextPrefix .. resources[i]
    local named = call('GET', nextKey)
    if named and (waiter == '' or not string.find(named, waiter, 1, true)) then
      holder, holderKey = RESERVED, nextKey
    end
  end
  if not holder then mine = false end
  if holder and holder ~= token then
    for taken = 1, i do
      if not holders[taken] then call('DEL', leasePrefix .. resources[taken]) end
    end
    local longestMs = tonumber(maxLeaseMs)
    if waitMs ~= '0' then
      local waiters, keptMs = waitersPrefix .. resources[i], math.min(tonumber(waitMs), longestMs)
      call('ZREMRANGEBYSCORE', waiters, '-inf', nowMs)
      call('ZADD', waiters, 'NX', nowMs + keptMs, waiter)
      local stepMs = math.min(2000, math.floor(longestMs / 2))
      local laterMs = (math.floor(nowMs / stepMs) + 2) * stepMs
      -- rule: place-lasts-as-long-as-its-waiter
      if laterMs < nowMs + tonumber(waitMs) then call('ZADD', waiters, 'XX', 'GT', laterMs, waiter) end
      if keptMs > call('PTTL', waiters) then call('PEXPIRE', waiters, keptMs) end
      flag(keptMs)
      -- rule: waiter-has-one-place
      for other = 1, count do
        if other ~= i then call('ZREM', waitersPrefix .. resources[other], waiter) end
      end
    end
    local ttlMs = call('PTTL', holderKey)
    if ttlMs > longestMs then call('PEXPIRE', holderKey, maxLeaseMs) end
    return {'taken', holder, math.min(ttlMs, longestMs), count > 1 and i or nil}
  end
end
if mine then
  local highest = 0
  for i = 1, count do highest = math.max(highest, tonumber(call('GET', fencePrefix .. resources[i]) or '0')) end
  return {'granted', highest}
end
-- rule: token-above-forgotten-ones
local counter = math.max(proposed, latestUs - fenceTtlMs * 1000 + TOKENS_PER_GRANT)
-- rule: token-above-those-before-a-resize
if floorUs then counter = math.max(counter, floorUs + TOKENS_PER_GRANT) end
if counter > proposed then fence = string.format('%.0f', counter) end
for i = 1, count do
  local before = call('SET', fencePrefix .. resources[i], fence, 'PX', fenceTtlMs, 'GET')
  local least = (before or 0) + TOKENS_PER_GRANT
  -- rule: counter-grows-with-every-grant
  if least > counter then
    counter, fence = least, string.format('%.0f', least)
    for raised = 1, i do call('SET', fencePrefix .. resources[raised], fence, 'PX', fenceTtlMs) end
  end
  if flagged then call('DEL', nextPrefix .. resources[i]) end
end
return counter == proposed or {'granted', counter}
