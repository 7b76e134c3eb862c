--[[
  Takes the place of `obliterate`.

  ARGV  base · slots
  Returns  as BullMQ's: 0 when nothing is left
  Keeps: the lines of a job go with it, and the rest of our keys at the end.
]]
--- @include "keys"
--- @include "ready"
local function drop(resources)
  for _, resource in ipairs(resources) do redis.call('DEL', lineKey(resource)) end
end
local view = {pcall = redis.pcall, call = function(...)
  local command, key = ...
  local lines = command == 'DEL' and redis.pcall('HGET', key, 'redlock:lines') -- It may be no hash.
  if type(lines) == 'string' then drop(resourcesOf(lines)) end
  return redis.call(...)
end}
local result = bullmq(view, KEYS, theirs)
if result ~= 0 then return result end
-- BullMQ leaves parents that wait for children of other queues, and ids begin again.
-- rule: obliterated-parent-waits-for-no-child
for _, id in ipairs(redis.call('ZRANGE', BASE .. 'waiting-children', 0, -1)) do
  local key = BASE .. id
  view.call('DEL', key, key .. ':logs', key .. ':dependencies', key .. ':processed', key .. ':failed',
    key .. ':unsuccessful')
end
redis.call('DEL', BASE .. 'waiting-children')
drop(redis.call('HKEYS', SPACE .. 'limits'))
drop(redis.call('ZRANGE', SPACE .. 'sleeping-lines', 0, -1))
for _, tenant in ipairs(redis.call('ZRANGE', SPACE .. 'ready', 0, -1)) do redis.call('DEL', readyJobsKey(tenant)) end
for _, store in ipairs(redis.call('ZRANGE', SPACE .. 'stores', 0, -1)) do redis.call('DEL', store) end
for _, name in ipairs({'ready', 'shares', 'sleeping-lines', 'deadlines', 'limits', 'limits-until', 'cancelled', 'seq',
  'sweeper', 'settings', 'stores', 'full', 'idle', 'checked'}) do redis.call('DEL', SPACE .. name) end
return result
