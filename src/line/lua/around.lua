--[[
  Takes the place of BullMQ's scripts that need no more than another view of a queue.

  ARGV  base · slots · isAsleep: a job that sleeps in line waits, and is not delayed
        time: which argument of BullMQ's is the time of the client
        ran: which one is the key of a job that moves itself
  Returns  as BullMQ's
]]
--- @include "keys"
--- @include "asleep-view"
if ARGV.time then theirs[ARGV.time] = math.floor(nowMs()) end
local result = bullmq(ARGV.isAsleep and viewOf() or redis, KEYS, theirs)
if ARGV.ran and result >= 0 then redis.call('HSET', theirs[ARGV.ran], 'redlock:ran', 1) end
return result
