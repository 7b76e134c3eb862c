--[[
  ARGV  base · resource: absent for all
  Returns  resources, each with what is in force (JSON)
]]
--- @include "keys"
--- @include "limits-in-force"
if ARGV.resource then return {ARGV.resource, inForce(redis.call('HGET', SPACE .. 'limits', ARGV.resource))} end
local found = redis.call('HGETALL', SPACE .. 'limits')
for i = 2, #found, 2 do found[i] = inForce(found[i]) end
return found
