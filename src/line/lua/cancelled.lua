--[[
  ARGV  base · ids: of jobs
  Returns  the request for each, or false
]]
--- @include "keys"
if redis.call('EXISTS', CANCELLED) == 0 then return {} end
return redis.call('HMGET', CANCELLED, unpack(ARGV.ids))
