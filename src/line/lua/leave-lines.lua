--[[
  Makes jobs that sleep or are held ordinary waiting jobs, in their order. They lose their places and
  their shares, so a plain worker can take it from there.

  ARGV  base · slots · from: the first to look at of `delayed` · most: jobs to look at
  Returns  jobs that were looked at, of them those that stay delayed, jobs that were woken
  Keeps: none is looked at twice. An id without a job is dropped.
]]
--- @include "line"
--- @include "ready"
local found = redis.call('ZRANGE', DELAYED, ARGV.from, ARGV.from + ARGV.most - 1, 'WITHSCORES')
local stay, moved = 0, 0
for i = 1, #found, 2 do
  local id = found[i]
  local job = jobOf(id, fieldsOf(id))
  -- rule: held-job-leaves-its-lines
  if tonumber(found[i + 1]) < ASLEEP and not job.held then stay = stay + 1
  elseif not job.timestamp then redis.call('ZREM', DELAYED, id)
  else
    job.place = placeOf(id, job.timestamp)
    for _, resource in ipairs(resourcesOf(job.lines or '[]')) do redis.call('ZREM', lineKey(resource), job.place) end
    if job.share then
      -- rule: job-without-a-share-is-not-ready
      leaveReady(id, job.share)
      redis.call('HDEL', job.jobKey, 'redlock:share')
    end
    job.lines, job.share = '[]', nil
    rules('wake')(job, false, '')
    moved = moved + 1
  end
end
return {#found / 2, stay, moved}
