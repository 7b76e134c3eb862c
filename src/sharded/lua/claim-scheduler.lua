--[[
  Claims a scheduler for a call that may move it to another shard.

  ARGV  base · slots · scheduler: its id · call: the name of the call · forMs: 0 ends the claim
  Returns  1 where the call has it, 0 where another one has
]]
--- @include "line/lua/keys"
local key = SPACE .. 'moving:' .. ARGV.scheduler
local holder = redis.call('GET', key)
if holder and holder ~= ARGV.call then return 0 end
if ARGV.forMs > 0 then redis.call('SET', key, ARGV.call, 'PX', ARGV.forMs) else redis.call('DEL', key) end
return 1
