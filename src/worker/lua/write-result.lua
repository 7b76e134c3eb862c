--[[
  ARGV  store · fencingToken · ttlMs · field · value
  Returns  kept | stale, the token that was seen
]]
local seen = redis.call('HMGET', ARGV.store, 'fencingToken', 'began')
-- rule: stale-holder-stores-nothing
if seen[1] and tonumber(seen[1]) > tonumber(ARGV.fencingToken) then return {'stale', seen[1]} end
redis.call('HSET', ARGV.store, 'fencingToken', ARGV.fencingToken, ARGV.field, ARGV.value,
  'resultBegan', seen[2] or 0)
redis.call('PEXPIRE', ARGV.store, ARGV.ttlMs)
return {'kept'}
