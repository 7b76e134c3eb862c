--[[
  ARGV  base · store · line, id, timestamp: see `mayTake`
  Returns  the result | false
]]
--- @include "line/lua/keys"
--- @include "may-take"
local found = redis.call('HMGET', ARGV.store, 'value:result', 'resultBegan')
return found[1] and mayTake(found[2]) and found[1]
