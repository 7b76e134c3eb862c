-- The enrolment of this server. It is read once a batch, and no verb changes it.
--- @include "time"
if enrolled == nil then
  local record = call('HMGET', masterKey, 'runId', 'maxLeaseMs', 'fleetSize', 'votesInMs', 'floorUs')
  -- rule: one-server-of-one-fleet
  enrolled = record[1] == runId and record[2] == maxLeaseMs and record[3] == fleetSize
  quarantineMs, floorUs = tonumber(record[4] or '0'), record[5]
end
