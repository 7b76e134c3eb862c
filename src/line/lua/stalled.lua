--[[
  Takes the place of `moveStalledJobsToWait`.

  BullMQ marks the jobs that run, and moves those that are still marked at its next check and have no
  lock. Locks run out while the server stands still, refuses, or reaches no worker. So after such a
  silence checks only mark for a while. Meanwhile workers find the server again, and send the ends of jobs
  that are done.

  BullMQ's KEYS[1] are the marks, and its KEYS[4] is there until the next check is due. Its ARGV[4] is
  the time between two checks, in milliseconds.

  ARGV  base · slots
  Returns  as BullMQ's
  Keeps: where all checks are late, the jobs of a dead worker are moved all the same.
]]
--- @include "keys"
local CHECKED, KEPT_MS, MISSED = SPACE .. 'checked', 7 * 24 * 3600000, 3
-- A worker looks for its server every two seconds. An end that was refused is sent again within one.
-- rule: spared-time-is-long-enough
local SPARED_MS = 3000
-- Where all checks are late, jobs of a dead worker have to run again too.
local MOST_SILENCES, MOST_SILENT_MS = 3, 30000
if redis.call('EXISTS', KEYS[4]) == 0 then
  local everyMs, now = tonumber(theirs[4]), math.floor(nowMs())
  local last, untilMs, silences, sinceMs =
    string.match(redis.call('GET', CHECKED) or '', '^(%d+) (%d+) (%d+) (%d+)$')
  untilMs, silences, sinceMs = tonumber(untilMs) or 0, tonumber(silences) or 0, tonumber(sinceMs) or now
  -- rule: checks-after-a-silence-only-mark
  local isSilent = last and now - last > MISSED * everyMs
  if silences == 0 or sinceMs > now then sinceMs = now end
  -- rule: silences-in-a-row-are-not-all-spared
  if isSilent and silences >= MOST_SILENCES and now - sinceMs >= MOST_SILENT_MS then
    untilMs, silences = 0, 0
  elseif isSilent then
    untilMs, silences = now + SPARED_MS, silences + 1
  else
    silences = 0
  end
  -- A time further ahead was written before the clock of the server was set back.
  -- rule: spared-time-is-near
  if now < untilMs and untilMs <= now + SPARED_MS then redis.call('DEL', KEYS[1]) end
  local record = string.format('%.0f %.0f %d %.0f', now, untilMs, silences, sinceMs)
  redis.call('SET', CHECKED, record, 'PX', KEPT_MS)
end
return bullmq(redis, KEYS, theirs)
