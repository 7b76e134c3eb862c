--[[
  The enrolment of this server, and its time. It is read once a batch, and no verb changes it.

  `flagged` says that there may be waiters, reservations or tombstones. Without them no verb looks
  for them, which saves a quarter of a lease's cost. What writes one says how long it lives.

  A grant's counter is so far past every earlier one that the lease can be passed on TOKENS_PER_GRANT
  times under its own fencing token.
]]
local TOKENS_PER_GRANT = 64
local flagged = call('EXISTS', flagKey) == 1
local time = call('TIME')
local nowMs = time[1] * 1000 + math.floor(time[2] / 1000)
local record = call('HMGET', masterKey, 'runId', 'maxLeaseMs', 'votesInMs', 'fleetSize', 'floorUs')
-- rule: one-server-of-one-fleet
local enrolled = record[1] == runId and record[2] == maxLeaseMs and record[4] == fleetSize
local quarantineMs = tonumber(record[3] or '0')
-- No clock of a client is beyond it, and a counter that has expired was as much behind it as it lives.
local latestUs = (nowMs + (maxClockSkewMs or 0)) * 1000
-- rule: token-above-those-before-a-resize
local earliestUs = math.max(latestUs - (fenceTtlMs or 0) * 1000, tonumber(record[5] or '0'))
local function flag(forMs)
  flagged = true
  if forMs > call('PTTL', flagKey) then call('SET', flagKey, '1', 'PX', forMs) end
end
