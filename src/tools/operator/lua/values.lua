--[[
  KEYS  any
  Returns  of each: its text, '' for what is none or not there · its PTTL ms
]]
local found = {}
for _, key in ipairs(KEYS) do
  local value = redis.pcall('GET', key)
  if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then return value end
  table.insert(found, {type(value) == 'string' and value or '', redis.call('PTTL', key)})
end
return found
