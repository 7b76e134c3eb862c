--[[
  ARGV  base · by: 'LockedWorker' | 'LockedQueue' · settings: JSON
  Returns  the settings that a worker compares with; of a queue, those of the last worker
]]
--- @include "keys"
local found
if ARGV.by == 'LockedWorker' then
  found = redis.call('HVALS', KEY.settings)
  redis.call('DEL', KEY.settings)
else
  found = {redis.call('HGET', KEY.settings, 'LockedWorker') or nil}
end
redis.call('HSET', KEY.settings, ARGV.by, ARGV.settings)
return found
