--[[
  Ends the steps of a run that has completed.

  ARGV  base · store · lock: BullMQ's token of the run
]]
--- @include "line/lua/keys"
if redis.call('HGET', ARGV.store, 'lock') ~= ARGV.lock then return 0 end -- Of another instance by now.
redis.call('ZREM', SPACE .. 'stores', ARGV.store)
return redis.call('DEL', ARGV.store)
