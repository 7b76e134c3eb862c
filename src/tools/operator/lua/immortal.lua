--[[
  KEYS  any
  ARGV  none
  Returns  those without a time to live
]]
local found = {}
for _, key in ipairs(KEYS) do
  if redis.call('PTTL', key) == -1 then table.insert(found, key) end
end
return found
