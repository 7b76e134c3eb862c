--[[
  What tells how long a job will wait, beside what `places` says of its lines.

  ARGV  base · id: of the job · most: completed jobs to look at
  Returns  now, ms · ms until the rate limit of its queue counts anew · its lines · the rate that it
  was added with, or '' (both JSON) · ms that completed jobs of these lines took · of all jobs;
  nothing for a job that has ended, or has no lines
]]
--- @include "keys"
--- @include "queue-rate"
local job = redis.call('HMGET', BASE .. ARGV.id, 'redlock:lines', 'finishedOn', 'redlock:rate')
if not job[1] or job[2] then return nil end
local own, all = {}, {}
local restMs, isUsed = queueRate(redis.call('HGET', META, 'max'))
for _, id in ipairs(redis.call('ZREVRANGE', BASE .. 'completed', 0, ARGV.most - 1)) do
  local done = redis.call('HMGET', BASE .. id, 'processedOn', 'finishedOn', 'redlock:lines')
  if done[1] and done[2] then
    all[#all + 1] = done[2] - done[1]
    if done[3] == job[1] then own[#own + 1] = done[2] - done[1] end
  end
end
return {math.floor(nowMs()), isUsed and restMs or 0, job[1], job[3] or '', own, all}
