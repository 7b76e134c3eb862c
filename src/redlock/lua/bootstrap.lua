--[[
  KEYS  1 master
  ARGV  1 runId · 2 maxLeaseMs · 3 fleetSize
  Returns  enrolled, 0
  Keeps: nothing; an operator states that no lease exists, so that the master may grant at once.
]]
redis.call('HSET', KEYS[1], 'runId', ARGV[1], 'maxLeaseMs', ARGV[2], 'fleetSize', ARGV[3],
  'quarantine', '', 'votesInMs', '0')
return {'enrolled', 0}
