--[[
  What keeps jobs of a queue waiting.

  ARGV  base · slots · most: lines to look at
  Returns  jobs that wait · of those that start next, the one that waits longest: id, '' for none,
  and ms from which it waits ·
  lines that a failed job holds · of the longest: resource, id of the job, why it failed, jobs behind it ·
  of full lines: ms of the last time, resource, jobs refused, jobs dropped ·
  settings of the last worker, of the last producer (JSON), '' where none is known
]]
--- @include "line"
--- @include "waiting"
--- @include "oldest"
local leastAsleep = string.format('%.0f', ASLEEP)
local oldest, since = oldestWaiting(leastAsleep)
local held, longest = 0, {'', '', '', -1}
for _, resource in ipairs(redis.call('ZRANGE', SPACE .. 'sleeping-lines', 0, ARGV.most - 1)) do
  local line, behind = lineKey(resource), redis.call('ZCARD', lineKey(resource)) - 1
  local places = redis.call('ZRANGE', line, 0, 1)
  if places[1] == MARK then
    table.remove(places, 1)
    behind = behind - 1
  end
  local job = places[1] and jobAt(places[1])
  if job and job.finishedOn then
    held = held + 1
    if behind > longest[4] then
      longest = {resource, job.id, redis.call('HGET', job.jobKey, 'failedReason') or '', behind}
    end
  end
end
local full = redis.call('HMGET', SPACE .. 'full', 'at', 'resource', 'refused', 'dropped')
local settings = redis.call('HMGET', SPACE .. 'settings', 'LockedWorker', 'LockedQueue', 'reported')
return {
  (waitingJobs(WAIT, BASE .. 'paused', PRIORITIZED, DELAYED, leastAsleep)), oldest, since,
  held, longest[1], longest[2], longest[3], longest[4],
  tonumber(full[1] or 0), full[2] or '', tonumber(full[3] or 0), tonumber(full[4] or 0),
  settings[1] or '', settings[2] or settings[3] or '',
}
