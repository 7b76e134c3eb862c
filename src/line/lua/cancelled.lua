--[[
  ARGV  base · ids: of jobs
  Returns  the request for each, or false
]]
--- @include "keys"
if redis.call('EXISTS', KEY.cancelled) == 0 then return {} end
return redis.call('HMGET', KEY.cancelled, unpack(ARGV.ids))
