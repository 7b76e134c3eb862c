--[[
  Returns  counter, highest value after the write | lost | unenrolled
  Keeps: a counter is raised only for the token that holds every one of the leases.
]]
local function confirm(resources, token, fence)
  if not enrolled then return {'unenrolled'} end
  for _, resource in ipairs(resources) do
    -- rule: confirm-only-my-key
    if redis.call('GET', leaseKey(resource)) ~= token then return {'lost'} end
  end
  local highest = 0
  for _, resource in ipairs(resources) do
    local counter = math.max(tonumber(redis.call('GET', fenceKey(resource)) or '0'), tonumber(fence))
    redis.call('SET', fenceKey(resource), string.format('%.0f', counter), 'PX', fenceTtlMs)
    highest = math.max(highest, counter)
  end
  return {'counter', highest}
end
