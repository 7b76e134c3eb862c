--[[
  KEYS  leases, then fences
  ARGV  1 how many leases
  Returns  the longest PTTL of the leases in ms, 0 for none, -1 for one that never ends · the largest
  counter
]]
local longest, largest = 0, 0
for i, key in ipairs(KEYS) do
  if i <= tonumber(ARGV[1]) then
    local left = redis.call('PTTL', key)
    if left == -1 or longest == -1 then longest = -1 else longest = math.max(longest, left) end
  else largest = math.max(largest, tonumber(redis.call('GET', key) or '0')) end
end
return {longest, string.format('%.0f', largest)}
