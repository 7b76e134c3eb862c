--[[
  ARGV  base · store · ttlMs · who claims: see `fence` · line, id, timestamp: see `mayTake`
  Returns  kept, all fields and values | stale, what a later holder has
  Keeps: who reads claims first, so an older holder cannot write behind its back. Steps are those of
  one instance of a job: its hash has the number of its store, and goes with it. The key `stores`
  has all stores with the times at which they end, for `obliterate`.
]]
--- @include "line/lua/keys"
--- @include "may-take"
--- @include "fence"
local store = ARGV.store
local later = laterHolder()
-- rule: stale-holder-claims-nothing
if later then return {'stale', later} end
if ARGV.job then
  local number = redis.call('HGET', BASE .. ARGV.job, 'redlock:steps')
  -- rule: checkpoints-of-one-instance
  if not number or number ~= redis.call('HGET', store, 'number') then
    redis.call('DEL', store)
    number = redis.call('INCR', SPACE .. 'seq')
    redis.call('HSET', BASE .. ARGV.job, 'redlock:steps', number)
    redis.call('HSET', store, 'number', number)
  end
elseif not mayTake(redis.call('HGET', store, 'resultBegan')) then redis.call('HDEL', store, 'value:result') end
local fields = redis.call('HGETALL', store)
-- rule: who-reads-claims
if not ARGV.job then
  local began = redis.call('GET', SPACE .. 'seq') or 0
  redis.call('HSET', store, 'token:' .. ARGV.lease, ARGV.fencingToken, 'began:' .. ARGV.lease, began)
end
redis.call('PEXPIRE', store, ARGV.ttlMs)
redis.call('ZREMRANGEBYSCORE', SPACE .. 'stores', '-inf', nowMs())
redis.call('ZADD', SPACE .. 'stores', nowMs() + ARGV.ttlMs, store)
return {'kept', fields}
