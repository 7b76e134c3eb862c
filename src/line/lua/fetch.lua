--[[
  Takes the place of `moveToActive`, of `moveToDelayed`, and of `retryJob`, by which a failed job starts
  again at once. All of them first put the delayed jobs that are due among those that wait.

  ARGV  base · slots · replaces: which of them
        does: 'park' | 'take', with what these files say, or 'look': whether a job is late, as of `park`
        or 'rest': its resources sleep, too
        runs: how many jobs the worker has that looks for one · worker: a name of it
  Returns  as BullMQ's, a fetched job with its turn
]]
--- @include "line"
--- @include "turn"
local rcall = seen
--- @bullmq functions
--- @include "fetch-sleeping"
--- @bullmq script
--- @include "order"
--- @include "park"
--- @include "take"
if ARGV.does == 'park' then return park() end
if ARGV.does == 'take' then return take() end
if ARGV.does == 'look' then return isLate() end
-- rule: due-by-the-clock-of-the-server
if ARGV.replaces == 'moveToDelayed' then theirs[2] = math.floor(nowMs()) end
local result = bullmq(KEYS, theirs)
if ARGV.does == 'rest' and result == 0 then
  -- rule: resting-job-wakes-with-its-resources
  redis.call('HSET', KEYS[5], 'redlock:held', RESTS)
  wakeHeads(resourcesOf(redis.call('HGET', KEYS[5], 'redlock:lines') or '[]'), false, '')
end
if ARGV.runs then
  redis.call('ZREM', IDLE, ARGV.worker)
  if type(result[1]) ~= 'table' then
    redis.call('ZADD', IDLE, ARGV.runs, ARGV.worker)
    redis.call('PEXPIRE', IDLE, IDLE_MS)
  end
end
return withTurn(result)
