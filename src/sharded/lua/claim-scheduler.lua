--[[
  Claims a scheduler for a call that may move it to another shard.

  ARGV  base · slots · scheduler: its id · call: the name of the call · forMs: 0 ends the claim
  Returns  1 where the call has it, 0 where another one has
]]
--- @include "line/lua/keys"
--- @include "line/lua/takes-turn"
local name = 'moving:' .. ARGV.scheduler
local isMine = redis.call('GET', SPACE .. name) == ARGV.call
if ARGV.forMs > 0 then return (isMine or takesTurn(name, ARGV.call, ARGV.forMs)) and 1 or 0 end
if isMine then redis.call('DEL', SPACE .. name) end
return 1
