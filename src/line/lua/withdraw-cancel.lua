--[[
  ARGV  base · id: of a job
]]
--- @include "keys"
return redis.call('HDEL', SPACE .. 'cancelled', ARGV.id)
