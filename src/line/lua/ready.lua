--[[
  The jobs of a tenant that may start.
]]
local function readyJobsKey(tenant) return SPACE .. 'ready-jobs:' .. tenant end
-- The weight and the tenant of a job, as its hash has them.
local function partsOf(share)
  local weight, tenant = string.match(share, '^(%S+) (.*)$')
  return tonumber(weight), tenant
end
-- A job of a tenant does not wait for its share any more.
local function leaveReady(id, share)
  local _, tenant = partsOf(share)
  redis.call('ZREM', readyJobsKey(tenant), id)
  if redis.call('EXISTS', readyJobsKey(tenant)) == 0 then redis.call('ZREM', SPACE .. 'ready', tenant) end
end
