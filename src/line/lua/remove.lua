--[[
  Takes the place of `removeJob`.

  ARGV  base · slots
  Returns  as BullMQ's
  Keeps: the job, and the children that go with it, leave their lines, and the next jobs are woken.
]]
--- @include "line"
--- @include "removing"
local job = redis.call('HMGET', BASE .. theirs[1], 'delay', 'priority')
local view = {pcall = redis.pcall, call = function(...)
  local fields = {...}
  local last = #fields
  if fields[1] == 'XADD' and fields[last] == 'delayed' and job[1] == ASLEEP_DELAY then
    fields[last] = (tonumber(job[2]) or 0) > 0 and 'prioritized' or 'wait'
  end
  return redis.call(unpack(fields))
end}
local result = removing(view, function(seen) return bullmq(seen, KEYS, theirs) end)
-- rule: removed-job-wakes-the-next
if left[1] then wakeHeads(left, false, '') end
return result
