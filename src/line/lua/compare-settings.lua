--[[
  KEYS  1 settings of the queue
  ARGV  1 space · 2 slots · 3 'LockedWorker' | 'LockedQueue' · 4 settings (JSON)
  Returns  the settings that a worker compares with; of a queue, those of the last worker
]]
local found
if ARGV[3] == 'LockedWorker' then
  found = redis.call('HVALS', KEYS[1])
  redis.call('DEL', KEYS[1])
else
  found = {redis.call('HGET', KEYS[1], 'LockedWorker') or nil}
end
redis.call('HSET', KEYS[1], ARGV[3], ARGV[4])
return found
