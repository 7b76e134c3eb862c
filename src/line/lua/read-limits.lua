--[[
  ARGV  base · resource: absent for all
  Returns  resources, each with what is set (JSON)
]]
--- @include "keys"
if not ARGV.resource then return redis.call('HGETALL', SPACE .. 'limits') end
return {ARGV.resource, redis.call('HGET', SPACE .. 'limits', ARGV.resource) or '{}'}
