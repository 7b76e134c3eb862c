--[[
  KEYS  1 master
  ARGV  none
  Returns  run id or '' if it is not enrolled, its maxLeaseMs, ms of quarantine left, how many
  masters its fleet has or 0
]]
local known = redis.call('HMGET', KEYS[1], 'runId', 'maxLeaseMs', 'votesInMs', 'fleetSize')
return {known[1] or '', tonumber(known[2] or '0'), tonumber(known[3] or '0'), tonumber(known[4] or '0')}
