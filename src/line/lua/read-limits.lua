--[[
  ARGV  base · resource: absent for all
  Returns  resources, each with what is in force (JSON)
]]
--- @include "keys"
--- @include "limits-in-force"
local found = ARGV.resource and {ARGV.resource, redis.call('HGET', SPACE .. 'limits', ARGV.resource) or nil}
  or redis.call('HGETALL', SPACE .. 'limits')
for i = 2, #found, 2 do found[i] = cjson.encode((inForce(found[i]))) end
return found
