--[[
  Makes jobs that sleep ordinary waiting jobs, in their order. They lose their places and their
  shares, so a plain worker can take it from there.

  KEYS  1 any
  ARGV  1 space · 2 slots · 3 base · 4 the most jobs
  Returns  sleepers that were looked at, jobs that were woken
  Keeps: none is looked at twice. An id without a job is dropped.
]]
--- @include "asleep"
--- @include "keys"
--- @include "limits"
--- @include "shares"
--- @include "line"
local base, from, most = ARGV[3], string.format('%.0f', ASLEEP), tonumber(ARGV[4])
local woken = 0
local sleepers = redis.call('ZRANGEBYSCORE', base .. 'delayed', from, '+inf', 'LIMIT', 0, most)
for _, id in ipairs(sleepers) do
  local job = redis.call('HMGET', base .. id, 'timestamp', 'priority', 'redlock:lines')
  local priority, lines = tonumber(job[2]) or 0, cjson.decode(job[3] or '[]')
  for _, resource in ipairs(lines) do
    redis.call('ZREM', lineKey(resource), placeOf(base, id, job[1]))
  end
  redis.call('HDEL', base .. id, 'redlock:share')
  local own = {jobKey = base .. id, base = base, id = id, lines = '[]', priority = priority}
  if job[1] and wake(own, false, '') then woken = woken + 1
  else redis.call('ZREM', base .. 'delayed', id) end
end
return {#sleepers, woken}
