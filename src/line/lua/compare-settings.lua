--[[
  ARGV  base · by: 'LockedWorker' | 'LockedQueue' · settings: JSON
  Returns  the settings that a worker compares with; of a queue, those of the last worker
]]
--- @include "keys"
local settings = SPACE .. 'settings'
local found = {redis.call('HGET', settings, 'LockedWorker') or nil}
if ARGV.by == 'LockedWorker' then
  local queue = redis.call('HGET', settings, 'LockedQueue')
  redis.call('DEL', settings)
  if queue then
    found[#found + 1] = queue
    -- Operators see it still.
    redis.call('HSET', settings, 'reported', queue)
  end
else redis.call('HDEL', settings, 'reported') end
redis.call('HSET', settings, ARGV.by, ARGV.settings)
return found
