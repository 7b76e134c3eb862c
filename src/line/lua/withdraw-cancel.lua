--[[
  ARGV  base · id: of a job
]]
--- @include "keys"
return redis.call('HDEL', KEY.cancelled, ARGV.id)
