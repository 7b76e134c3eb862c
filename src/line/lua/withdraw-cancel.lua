--[[
  KEYS  1 cancelled
  ARGV  3 job key
]]
return redis.call('HDEL', KEYS[1], ARGV[3])
