--[[
  Returns  the holder's token or nil, its PTTL ms, the counter or nil
  Keeps: changes nothing.
]]
local function inspect(resource)
  local key = leaseKey(resource)
  return {redis.call('GET', key), redis.call('PTTL', key), redis.call('GET', fenceKey(resource))}
end
