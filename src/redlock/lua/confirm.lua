--[[
  Returns  true, when the counter is `fence` now | counter, the highest of them | lost | unenrolled
  Keeps: a counter is raised only for the token that holds every one of the leases.
]]
--- @include "record"
if not enrolled then return {'unenrolled'} end
for i = 1, count do
  -- rule: confirm-only-my-key
  if call('GET', leasePrefix .. resources[i]) ~= token then return {'lost'} end
end
local highest = 0
for i = 1, count do
  local key = fencePrefix .. resources[i]
  local counter = math.max(tonumber(call('GET', key) or '0'), tonumber(fence))
  call('SET', key, string.format('%.0f', counter), 'PX', fenceTtlMs)
  highest = math.max(highest, counter)
end
return highest == tonumber(fence) or {'counter', highest}
