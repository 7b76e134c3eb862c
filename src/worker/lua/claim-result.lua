--[[
  ARGV  base · store · fencingToken · ttlMs · line, id, timestamp: see `mayTake`
  Returns  kept, all fields and values | stale, the token that was seen
  Keeps: who reads claims with its token first, so an older holder cannot write behind its back. The key
  `stores` has all stores with the times at which they end, for `obliterate`.
]]
--- @include "line/lua/keys"
--- @include "may-take"
local store = ARGV.store
local seen = redis.call('HMGET', store, 'fencingToken', 'resultBegan')
-- rule: stale-holder-claims-nothing
if seen[1] and tonumber(seen[1]) > tonumber(ARGV.fencingToken) then return {'stale', seen[1]} end
if not mayTake(seen[2]) then redis.call('HDEL', store, 'value:result') end
local fields = redis.call('HGETALL', store)
-- rule: who-reads-claims
redis.call('HSET', store, 'fencingToken', ARGV.fencingToken, 'began', redis.call('GET', SPACE .. 'seq') or 0)
redis.call('PEXPIRE', store, ARGV.ttlMs)
local nowMs = redis.call('TIME')[1] * 1000
redis.call('ZREMRANGEBYSCORE', SPACE .. 'stores', '-inf', nowMs)
redis.call('ZADD', SPACE .. 'stores', nowMs + ARGV.ttlMs + 1000, store)
return {'kept', fields}
