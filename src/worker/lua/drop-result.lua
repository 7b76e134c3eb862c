--[[
  ARGV  base · store
]]
--- @include "line/lua/keys"
redis.call('ZREM', KEY.stores, ARGV.store)
return redis.call('DEL', ARGV.store)
