--[[
  ARGV  base · store
]]
--- @include "line/lua/keys"
redis.call('ZREM', STORES, ARGV.store)
return redis.call('DEL', ARGV.store)
