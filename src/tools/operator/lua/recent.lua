--[[
  The jobs of a resource among those that ended last.

  KEYS  1 completed or failed · 2 the start of a job's key
  ARGV  1 resource, as a JSON text · 2 most: jobs to look at
  Returns  of each: id · ms of its end · ms of its start · reason, '' where it did not fail
]]
--- @include "line/lua/reason"
local found = {}
for _, id in ipairs(redis.call('ZREVRANGE', KEYS[1], 0, ARGV[2] - 1)) do
  local job = redis.call('HMGET', KEYS[2] .. id, 'redlock:lines', 'finishedOn', 'processedOn', 'failedReason')
  if job[1] and string.find(job[1], ARGV[1], 1, true) then
    table.insert(found, {id, job[2] or '', job[3] or '', shortReason(job[4])})
  end
end
return found
