--[[
  The enrolment of this server, and its time. It is read once a batch, and no verb changes it.

  `flagged` says that there may be waiters, reservations or tombstones. Without them no verb looks
  for them, which saves a quarter of a lease's cost. What writes one says how long it lives.
]]
local flagged = call('EXISTS', flagKey) == 1
local time = call('TIME')
local nowMs = time[1] * 1000 + math.floor(time[2] / 1000)
local record = call('HMGET', masterKey, 'runId', 'maxLeaseMs', 'votesInMs', 'fleetSize', 'floorUs')
-- rule: one-server-of-one-fleet
local enrolled = record[1] == runId and record[2] == maxLeaseMs and record[4] == fleetSize
local quarantineMs = tonumber(record[3] or '0')
local function flag(forMs)
  flagged = true
  if forMs > call('PTTL', flagKey) then call('SET', flagKey, '1', 'PX', forMs) end
end
