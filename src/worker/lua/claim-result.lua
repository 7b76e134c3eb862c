--[[
  KEYS  1 store
  ARGV  1 space · 2 slots · 3 fencing token · 4 ttlMs · 5 line, or '' · 6 place of the job in it
  Returns  kept, all fields and values | stale, the token that was seen
  Keeps: who reads claims with its token first, so an older holder cannot write behind its back.
]]
--- @include "may-take"
local seen = redis.call('HMGET', KEYS[1], 'fencingToken', 'resultBegan')
-- rule: stale-holder-claims-nothing
if seen[1] and tonumber(seen[1]) > tonumber(ARGV[3]) then return {'stale', seen[1]} end
if not mayTake(ARGV[5], ARGV[6], seen[2]) then redis.call('HDEL', KEYS[1], 'value:result') end
local fields = redis.call('HGETALL', KEYS[1])
local began = redis.call('GET', ARGV[1] .. 'line-seq') or 0
-- rule: who-reads-claims
redis.call('HSET', KEYS[1], 'fencingToken', ARGV[3], 'began', began)
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return {'kept', fields}
