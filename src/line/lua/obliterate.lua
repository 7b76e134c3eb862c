--[[
  Takes the place of `obliterate`.

  ARGV  base · slots
  Returns  as BullMQ's: 0 when nothing is left, 1 where it has to be called again
  Keeps: the lines of a job go with it, and the rest of our keys at the end.
]]
--- @include "keys"
--- @include "ready"
local function drop(resources)
  for _, resource in ipairs(resources) do redis.call('DEL', lineKey(resource)) end
end
local function removeJob(key)
  local lines = redis.pcall('HGET', key, 'redlock:lines') -- It may be no hash.
  if type(lines) == 'string' then drop(resourcesOf(lines)) end
end

-- Removes what is ours and named, as much of a kind as jobs in one call. Whether more is left.
local most = math.max(1, tonumber(theirs[1]))
local function isMoreLeft()
  local left = 0
  local function removeEach(names, remove)
    for _, name in ipairs(redis.call('ZRANGE', names, 0, most - 1)) do remove(name) end
    redis.call('ZREMRANGEBYRANK', names, 0, most - 1)
    left = left + redis.call('EXISTS', names)
  end
  -- BullMQ leaves parents that wait for children of other queues, and ids begin again.
  -- rule: obliterated-parent-waits-for-no-child
  removeEach(BASE .. 'waiting-children', function(id)
    local key = BASE .. id
    removeJob(key)
    redis.call('DEL', key, key .. ':logs', key .. ':dependencies', key .. ':processed', key .. ':failed',
      key .. ':unsuccessful')
  end)
  removeEach(SPACE .. 'sleeping-lines', function(resource) drop({resource}) end)
  removeEach(SPACE .. 'ready', function(tenant) redis.call('DEL', readyJobsKey(tenant)) end)
  removeEach(SPACE .. 'stores', function(store) redis.call('DEL', store) end)
  -- A scan from the beginning would find nothing where those there are removed.
  -- rule: limits-that-are-left-are-found
  local limits = redis.call('HRANDFIELD', SPACE .. 'limits', most)
  drop(limits)
  for _, resource in ipairs(limits) do redis.call('HDEL', SPACE .. 'limits', resource) end
  return left + redis.call('EXISTS', SPACE .. 'limits') > 0
end

local isCut = false
local view = {pcall = redis.pcall, call = function(...)
  local command, key = ...
  if command == 'DEL' then
    -- Of its last keys. One says that the queue is paused, and the next call needs it.
    -- rule: obliteration-takes-several-calls
    if key == EVENTS then isCut = isMoreLeft() end
    if isCut then return 0 end
    removeJob(key)
  end
  return redis.call(...)
end}
local result = bullmq(view, KEYS, theirs)
if isCut then return 1 end
if result ~= 0 then return result end
for _, name in ipairs({'ready', 'shares', 'sleeping-lines', 'deadlines', 'limits', 'limits-until', 'cancelled', 'seq',
  'sweeper', 'settings', 'stores', 'full', 'idle', 'checked'}) do redis.call('DEL', SPACE .. name) end
return result
