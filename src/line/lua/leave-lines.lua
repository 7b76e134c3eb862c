--[[
  Makes jobs that sleep ordinary waiting jobs, in their order. They lose their places and their
  shares, so a plain worker can take it from there.

  ARGV  base · slots · most: jobs to look at
  Returns  sleepers that were looked at, jobs that were woken
  Keeps: none is looked at twice. An id without a job is dropped.
]]
--- @include "line"
local from = string.format('%.0f', ASLEEP)
local sleepers = redis.call('ZRANGEBYSCORE', DELAYED, from, '+inf', 'LIMIT', 0, ARGV.most)
for _, id in ipairs(sleepers) do
  local job = redis.call('HMGET', BASE .. id, 'timestamp', 'priority', 'redlock:lines', 'redlock:share')
  local priority, lines = tonumber(job[2]) or 0, cjson.decode(job[3] or '[]')
  for _, resource in ipairs(lines) do
    redis.call('ZREM', lineKey(resource), placeOf(id, job[1]))
  end
  if job[4] then rules('shares').leave(id, job[4]) end
  local own = {jobKey = BASE .. id, id = id, lines = '[]', priority = priority}
  if job[1] then rules('wake')(own, false, '') else redis.call('ZREM', DELAYED, id) end
end
return {#sleepers, wokenCount}
