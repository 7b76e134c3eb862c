--[[
  KEYS  1 store
  ARGV  1 space · 2 slots · 3 fencing token · 4 ttlMs · 5 field · 6 value
  Returns  kept | stale, the token that was seen
]]
local seen = redis.call('HMGET', KEYS[1], 'fencingToken', 'began')
-- rule: stale-holder-stores-nothing
if seen[1] and tonumber(seen[1]) > tonumber(ARGV[3]) then return {'stale', seen[1]} end
redis.call('HSET', KEYS[1], 'fencingToken', ARGV[3], ARGV[5], ARGV[6], 'resultBegan', seen[2] or 0)
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return {'kept'}
