--[[
  The enrolment of this server, and its time.

  `flagged` says that there may be waiters, reservations or tombstones. Without them no verb looks
  for them, which saves a quarter of a lease's cost. What writes one says how long it lives. A verb
  that needs the time or the enrolment calls `readRecord` first; no verb changes what it reads.

  A grant's counter is so far past every earlier one that the lease can be passed on TOKENS_PER_GRANT
  times under its own fencing token.
]]
local TOKENS_PER_GRANT = 64
local leasePrefix, fencePrefix = namespace .. ':lease:', namespace .. ':fence:'
local flagKey = namespace .. ':flag'
local flagged = call('EXISTS', flagKey) == 1
local nowMs, enrolled, quarantineMs, grants, earliestUs, latestUs
local function readRecord()
  local time = call('TIME')
  nowMs = time[1] * 1000 + math.floor(time[2] / 1000)
  local record = call('HMGET', namespace .. ':master', 'runId', 'maxLeaseMs', 'votesInMs', 'fleetSize', 'floorUs')
  -- rule: one-server-of-one-fleet
  enrolled = record[1] == runId and record[2] == maxLeaseMs and record[4] == fleetSize
  quarantineMs = tonumber(record[3] or '0')
  grants = enrolled and quarantineMs <= 0
  earliestUs = (nowMs + (maxClockSkewMs or 0) - (fenceTtlMs or 0)) * 1000
  -- rule: token-above-those-before-a-resize
  earliestUs = math.max(earliestUs, tonumber(record[5] or '0'))
  latestUs = (nowMs + (maxClockSkewMs or 0)) * 1000
end
