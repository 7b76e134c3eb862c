--[[
  What tells how long a job will wait, beside what `places` says of its lines.

  ARGV  base · id: of the job · most: completed jobs to look at
  Returns  now, ms · ms until the rate limit of its queue counts anew · its lines · the rate that it
  was added with, or '' (both JSON) · ms that completed jobs of these lines took · of all jobs;
  nothing for a job that has ended, or has no lines
]]
--- @include "keys"
local job = redis.call('HMGET', BASE .. ARGV.id, 'redlock:lines', 'finishedOn', 'redlock:rate')
if not job[1] or job[2] then return nil end
local own, all = {}, {}
-- Until a rate limit of the whole queue counts anew. `queue.rateLimit` sets the largest count.
local started, max = redis.call('GET', BASE .. 'limiter'), redis.call('HGET', META, 'max') or 9007199254740991
local isUsed = started and tonumber(started) >= tonumber(max)
local restMs = isUsed and math.max(0, redis.call('PTTL', BASE .. 'limiter')) or 0
for _, id in ipairs(redis.call('ZREVRANGE', BASE .. 'completed', 0, ARGV.most - 1)) do
  local done = redis.call('HMGET', BASE .. id, 'processedOn', 'finishedOn', 'redlock:lines')
  if done[1] and done[2] then
    all[#all + 1] = done[2] - done[1]
    if done[3] == job[1] then own[#own + 1] = done[2] - done[1] end
  end
end
return {math.floor(nowMs()), restMs, job[1], job[3] or '', own, all}
