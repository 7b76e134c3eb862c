--[[
  Returns  withdrawn
]]
local function withdraw(resources, waiter)
  for _, resource in ipairs(resources) do redis.call('ZREM', waitersKey(resource), waiter) end
  return {'withdrawn'}
end
