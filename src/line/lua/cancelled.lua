--[[
  ARGV  base · ids: of jobs
  Returns  the request for each, or false
]]
--- @include "keys"
if redis.call('EXISTS', SPACE .. 'cancelled') == 0 then return {} end
return redis.call('HMGET', SPACE .. 'cancelled', unpack(ARGV.ids))
