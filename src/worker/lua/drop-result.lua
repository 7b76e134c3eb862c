--[[
  ARGV  base · store
]]
--- @include "line/lua/keys"
redis.call('ZREM', SPACE .. 'stores', ARGV.store)
return redis.call('DEL', ARGV.store)
