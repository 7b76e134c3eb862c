--[[
  KEYS  1 master
  ARGV  none
  Returns  run id or '' if it is not enrolled, its maxLeaseMs, ms of quarantine left, how many
  masters its fleet has or 0, its fenceTtlMs, the resize that has closed it, that opened it, 1 where
  a resize took it out of its fleet
]]
local known = redis.call('HMGET', KEYS[1], 'runId', 'maxLeaseMs', 'votesInMs', 'fleetSize', 'fenceTtlMs',
  'resizing', 'resized', 'retired')
return {
  known[1] or '', tonumber(known[2] or '0'), tonumber(known[3] or '0'), tonumber(known[4] or '0'),
  tonumber(known[5] or '0'), known[6] or '', known[7] or '', tonumber(known[8] or '0'),
}
