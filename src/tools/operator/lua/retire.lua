--[[
  KEYS  1 master
  ARGV  1 goal
  Returns  retired
  Keeps: it was closed by this resize, and stays closed for every fleet until a resize opens it.
]]
if redis.call('HMGET', KEYS[1], 'resizing')[1] == ARGV[1] then
  redis.call('HDEL', KEYS[1], 'resizing')
  redis.call('HSET', KEYS[1], 'retired', '1')
end
return {'retired'}
