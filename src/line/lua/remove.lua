--[[
  Takes the place of BullMQ's scripts that remove jobs.

  ARGV  base · slots · isAsleep, time: as of `around`
  Returns  as BullMQ's
  Keeps: the jobs, and the children that go with them, leave their lines, and the next jobs are
  woken. Of a child in another queue, a sweep wakes the next.
]]
--- @include "line"
--- @include "asleep-view"
--- @include "removing"
-- rule: scheduler-by-the-clock-of-the-server
if ARGV.time then theirs[ARGV.time] = math.floor(nowMs()) end
local view = ARGV.isAsleep and viewOf() or redis
local result = removing(view, function(seen) return bullmq(seen, KEYS, theirs) end)
-- BullMQ took it off those that wait.
-- rule: removed-job-sleeps-no-more
if ARGV.isAsleep then removeAll(DELAYED, removed) end
-- rule: removed-job-wakes-the-next
wakeHeads(left, false, '')
return result
