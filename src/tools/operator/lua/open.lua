--[[
  Makes a master that a resize has closed one of the new fleet.

  KEYS  1 master
  ARGV  1 runId · 2 goal · 3 maxLeaseMs · 4 fleetSize · 5 fenceTtlMs
        6 floorUs: a counter above all that were granted before
  Returns  open, also where it was before | another: this resize has not closed it, or it forgot that
  Keeps: every fencing token of the new fleet is above those of the old one.
]]
local known = redis.call('HMGET', KEYS[1], 'runId', 'resizing', 'floorUs', 'resized')
if not known[2] and known[4] == ARGV[2] then return {'open'} end
if known[2] ~= ARGV[2] or known[1] ~= ARGV[1] then return {'another'} end
local floorUs = string.format('%.0f', math.max(tonumber(known[3] or '0'), tonumber(ARGV[6])))
redis.call('HDEL', KEYS[1], 'resizing', 'forgot')
-- In two writes, as an enrolment.
redis.call('HSET', KEYS[1], 'durable', '0')
redis.call('HSET', KEYS[1], 'runId', ARGV[1], 'maxLeaseMs', ARGV[3], 'fleetSize', ARGV[4],
  'fenceTtlMs', ARGV[5], 'founder', '', 'quarantine', '', 'votesInMs', '0',
  'resized', ARGV[2], 'floorUs', floorUs)
return {'open'}
