--[[
  ARGV  base · resource: absent for all · cursor: of all, as the last reply says · most: of one reply
  Returns  the next cursor, '0' at the end · resources, each with what is in force (JSON)
]]
--- @include "keys"
--- @include "limits-in-force"
local limits, cursor, found = SPACE .. 'limits', '0', {ARGV.resource}
if ARGV.resource then found[2] = redis.call('HGET', limits, ARGV.resource) or nil
else cursor, found = unpack(redis.call('HSCAN', limits, ARGV.cursor, 'COUNT', ARGV.most)) end
for i = 2, #found, 2 do found[i] = cjson.encode((inForce(found[i]))) end
return {cursor, found}
