--[[
  KEYS  lease, fence of each resource
  ARGV  none
  Returns  token or '', its PTTL ms, counter or '' of each
]]
local found = {}
for i = 1, #KEYS, 2 do
  table.insert(found, redis.call('GET', KEYS[i]) or '')
  table.insert(found, redis.call('PTTL', KEYS[i]))
  table.insert(found, redis.call('GET', KEYS[i + 1]) or '')
end
return found
