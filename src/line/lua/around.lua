--[[
  Takes the place of BullMQ's scripts that need no more than another view of a queue.

  ARGV  base · slots · isAsleep: a job that sleeps in line waits, and is not delayed
        removes: a job that it deletes leaves its lines
        time: which argument of BullMQ's is the time of the client
        ran: which one is the key of a job that moves itself
  Returns  as BullMQ's
]]
--- @include "keys"
--- @include "asleep-view"
--- @include "removing"
local view = ARGV.isAsleep and viewOf() or redis
-- rule: scheduler-by-the-clock-of-the-server
if ARGV.time then theirs[ARGV.time] = math.floor(nowMs()) end
local function run(seen) return bullmq(seen, KEYS, theirs) end
if not ARGV.removes then
  local result = run(view)
  if ARGV.ran and result >= 0 then redis.call('HSET', theirs[ARGV.ran], 'redlock:ran', 1) end
  return result
end
local result = removing(view, run)
-- BullMQ took it off those that wait.
-- rule: removed-job-sleeps-no-more
if ARGV.isAsleep then removeAll(DELAYED, removed) end
return result
