--[[
  Takes the place of `removeJob`.

  ARGV  base · slots · id: of the job
  Returns  as BullMQ's
  Keeps: who is removed leaves its lines, and the next is woken.
]]
--- @include "line"
--- @include "leave"
local id = ARGV.id
local job = redis.call('HMGET', BASE .. id, 'redlock:lines', 'timestamp', 'delay', 'priority')
local view = {pcall = redis.pcall, call = function(...)
  local fields = {...}
  local last = #fields
  if fields[1] == 'XADD' and fields[last] == 'delayed' and job[3] == ASLEEP_DELAY then
    fields[last] = (tonumber(job[4]) or 0) > 0 and 'prioritized' or 'wait'
  end
  return redis.call(unpack(fields))
end}
local result = bullmq(view, KEYS, theirs)
-- rule: removed-job-leaves
if result == 1 and job[1] then leave(id, job[1], job[2]) end
return result
