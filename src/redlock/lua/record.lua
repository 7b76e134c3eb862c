--[[
  The enrolment of this server, and its time. It is read once a batch, by the first verb that needs
  it, and no verb changes it.
]]
if not nowMs then
  time = call('TIME')
  nowMs = time[1] * 1000 + math.floor(time[2] / 1000)
  local record = call('HMGET', masterKey, 'runId', 'maxLeaseMs', 'fleetSize', 'votesInMs', 'floorUs')
  -- rule: one-server-of-one-fleet
  enrolled = record[1] == runId and record[2] == maxLeaseMs and record[3] == fleetSize
  quarantineMs, floorUs = tonumber(record[4] or '0'), record[5]
end
