--[[
  ARGV  base · store · ttlMs · field · value · who writes: see `fence`
  Returns  kept | stale, what a later holder has
]]
--- @include "line/lua/keys"
--- @include "fence"
local later = laterHolder()
-- rule: stale-holder-stores-nothing
if later then return {'stale', later} end
if not ARGV.job then
  -- rule: result-is-as-old-as-its-own-computation
  local began = redis.call('HGET', ARGV.store, 'began:' .. ARGV.lease) or 0
  redis.call('HSET', ARGV.store, 'token:' .. ARGV.lease, ARGV.fencingToken, 'resultBegan', began)
end
redis.call('HSET', ARGV.store, ARGV.field, ARGV.value)
redis.call('PEXPIRE', ARGV.store, ARGV.ttlMs)
return {'kept'}
