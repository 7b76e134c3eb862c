--[[
  KEYS  1 limits
  ARGV  1 space · 2 slots · 3 resource, or none for all
  Returns  resources, each with what is set (JSON)
]]
if not ARGV[3] then return redis.call('HGETALL', KEYS[1]) end
return {ARGV[3], redis.call('HGET', KEYS[1], ARGV[3]) or '{}'}
