--[[
  ARGV  base · resource: absent for all
  Returns  resources, each with what is set (JSON)
]]
--- @include "keys"
if not ARGV.resource then return redis.call('HGETALL', KEY.limits) end
return {ARGV.resource, redis.call('HGET', KEY.limits, ARGV.resource) or '{}'}
