--[[
  ARGV  base · by: 'LockedWorker' | 'LockedQueue' · settings: JSON
  Returns  the settings that a worker compares with; of a queue, those of the last worker
]]
--- @include "keys"
local found
if ARGV.by == 'LockedWorker' then
  found = redis.call('HVALS', SPACE .. 'settings')
  redis.call('DEL', SPACE .. 'settings')
else
  found = {redis.call('HGET', SPACE .. 'settings', 'LockedWorker') or nil}
end
redis.call('HSET', SPACE .. 'settings', ARGV.by, ARGV.settings)
return found
