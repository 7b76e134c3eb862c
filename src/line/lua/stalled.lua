--[[
  Takes the place of `moveStalledJobsToWait`.

  BullMQ marks the jobs that run, and moves those that are still marked at its next check and have no
  lock. Locks run out while the server stands still, or reaches no worker. So the first check after such
  a time only marks: workers renew their locks, and jobs that have ended record it, before the second.

  BullMQ's KEYS[1] are the marks, and its KEYS[4] is there until the next check is due. Its ARGV[4] is
  the time between two checks, in milliseconds.

  ARGV  base · slots
  Returns  as BullMQ's
  Keeps: of two checks that follow each other, one at least moves jobs.
]]
--- @include "keys"
local CHECKED, KEPT_MS, MISSED = SPACE .. 'checked', 3600000, 3
if redis.call('EXISTS', KEYS[4]) == 0 then
  local everyMs, now = tonumber(theirs[4]), math.floor(nowMs())
  local last, spared = string.match(redis.call('GET', CHECKED) or '', '^(%d+) ?(.*)$')
  -- rule: check-after-a-silence-only-marks
  local isSilent = not last or now - last > MISSED * everyMs
  -- Not twice: where checks are always late, jobs of a dead worker run again all the same.
  -- rule: one-check-in-two-moves
  local spares = isSilent and spared ~= 'spared'
  if spares then redis.call('DEL', KEYS[1]) end
  redis.call('SET', CHECKED, now .. (spares and ' spared' or ''), 'PX', KEPT_MS)
end
return bullmq(redis, KEYS, theirs)
