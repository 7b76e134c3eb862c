--[[
  Takes the place of BullMQ's scripts that need no more than another view of a queue.

  ARGV  base · slots · isAsleep: a job that sleeps in line waits, and is not delayed
        removes: a job that it deletes leaves its lines
        time: which argument of BullMQ's is the time of the client
  Returns  as BullMQ's
]]
--- @include "keys"
--- @include "asleep-view"
--- @include "removing"
local view = ARGV.isAsleep and viewOf() or redis
if ARGV.removes then view = removing(view) end
-- rule: scheduler-by-the-clock-of-the-server
if ARGV.time then theirs[ARGV.time] = math.floor(nowMs()) end
return bullmq(view, KEYS, theirs)
