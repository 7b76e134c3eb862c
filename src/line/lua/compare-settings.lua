--[[
  ARGV  base · by: 'LockedWorker' | 'LockedQueue' · settings: JSON
  Returns  the settings that a worker compares with; of a queue, those of the last worker
]]
--- @include "keys"
local found
if ARGV.by == 'LockedWorker' then
  found = redis.call('HVALS', SETTINGS)
  redis.call('DEL', SETTINGS)
else
  found = {redis.call('HGET', SETTINGS, 'LockedWorker') or nil}
end
redis.call('HSET', SETTINGS, ARGV.by, ARGV.settings)
return found
