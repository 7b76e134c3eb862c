--[[
  The enrolment of this server, and its time. It is read once a batch, by the first verb that needs
  it, and no verb changes it.
]]
if not record then
  time = call('TIME')
  nowMs = time[1] * 1000 + math.floor(time[2] / 1000)
  record = call('HMGET', masterKey, 'runId', 'maxLeaseMs', 'votesInMs', 'fleetSize', 'floorUs')
end
-- rule: one-server-of-one-fleet
local enrolled = record[1] == runId and record[2] == maxLeaseMs and record[4] == fleetSize
