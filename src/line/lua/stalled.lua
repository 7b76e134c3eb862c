--[[
  Takes the place of `moveStalledJobsToWait`.

  BullMQ marks the jobs that run, and moves those that are still marked at its next check and have no
  lock. Locks run out while the server stands still, refuses, or reaches no worker. So a check after
  such a silence only marks, and so do those that follow it for a while. Meanwhile workers find the
  server again, and send the ends of jobs that are done.

  BullMQ's KEYS[1] are the marks, and its KEYS[4] is there until the next check is due. Its ARGV[4] is
  the time between two checks, in milliseconds.

  ARGV  base · slots
  Returns  as BullMQ's, and after how many milliseconds to check again; 0 for BullMQ's own time
]]
--- @include "keys"
local CHECKED, KEPT_MS = SPACE .. 'checked', 7 * 24 * 3600000
-- A worker looks for its server every two seconds. An end that was refused is sent again within one.
-- rule: spared-time-is-long-enough
local SPARED_MS = 3000
-- The next check finds that it has ended.
local ENDED_MS = 100
-- Checks are up to two times apart. Where they are rare, each one spares, and one follows it soon.
local MISSED, MOST_SILENT_MS = 2.5, 10000
-- Where all checks are late, jobs of a dead worker have to run again too.
local MOST_SILENCES = 10
local sparedMs = 0
if redis.call('EXISTS', KEYS[4]) == 0 then
  local everyMs, now = tonumber(theirs[4]), math.floor(nowMs())
  local last, untilMs, silences =
    string.match(redis.call('GET', CHECKED) or '', '^(%d+) (%d+) (%d+)$')
  untilMs, silences = tonumber(untilMs) or 0, tonumber(silences) or 0
  -- A time further ahead was written before the clock of the server was set back.
  -- rule: spared-time-is-near
  if untilMs > now + SPARED_MS then untilMs = 0 end
  -- rule: checks-after-a-silence-only-mark
  local isSilent = last and now - last > math.min(MISSED * everyMs, MOST_SILENT_MS)
  if not isSilent then
    silences = 0
  elseif now >= untilMs then
    silences = silences + 1
  end
  -- rule: silences-in-a-row-are-not-all-spared
  if silences > MOST_SILENCES then
    untilMs, silences = 0, 0
  elseif isSilent then
    untilMs = now + SPARED_MS
  end
  if now < untilMs then
    redis.call('DEL', KEYS[1])
    sparedMs = untilMs - now
  end
  redis.call('SET', CHECKED, string.format('%.0f %.0f %d', now, untilMs, silences), 'PX', KEPT_MS)
end
local stalled = bullmq(redis, KEYS, theirs)
if sparedMs == 0 then return {stalled, 0} end
-- rule: spared-job-is-soon-looked-at
if redis.call('PTTL', KEYS[4]) > sparedMs then redis.call('PEXPIRE', KEYS[4], sparedMs) end
return {stalled, sparedMs + ENDED_MS}
