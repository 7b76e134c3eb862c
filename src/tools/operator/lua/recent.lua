--[[
  The jobs that ended last.

  KEYS  1 completed or failed · 2 the start of a job's key
  ARGV  1 a resource that they touch, as a JSON text, '' for any · 2 most: jobs to look at
        3… fields of their hashes, first redlock:lines and failedReason
  Returns  of each: id · the values of its fields
]]
--- @include "line/lua/reason"
local found = {}
for _, id in ipairs(redis.call('ZREVRANGE', KEYS[1], 0, ARGV[2] - 1)) do
  local job = redis.call('HMGET', KEYS[2] .. id, unpack(ARGV, 3))
  if ARGV[1] == '' or job[1] and string.find(job[1], ARGV[1], 1, true) then
    job[2] = shortReason(job[2])
    table.insert(found, {id, job})
  end
end
return found
