--[[
  KEYS  1 cancelled
  ARGV  3… job keys
  Returns  the request for each, or false
]]
if redis.call('EXISTS', KEYS[1]) == 0 then return {} end
return redis.call('HMGET', KEYS[1], unpack(ARGV, 3))
