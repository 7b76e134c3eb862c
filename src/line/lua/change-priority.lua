--[[
  Takes the place of `changePriority`.

  ARGV  base · slots
  Returns  as BullMQ's
  Keeps: a sleeping job's new priority holds when it is woken, among the ready jobs of its tenant,
  and in its lines where they have one. The heads of these are woken where a slot is free.
]]
--- @include "line"
--- @include "order"
-- Wakes the heads of a line where a slot is free. The job that was the last head may be behind them.
local function wakeWhereFree(resource)
  local heads, slots, limits = headsOf(resource)
  local after = slots + (limits and 1 or 0)
  local place = redis.call('ZRANGE', lineKey(resource), after, after)[1]
  local behind = place and jobAt(place)
  local function usedBy(job) return redis.call('ZSCORE', DELAYED, job.id) and 0 or 1 end
  local used = behind and usedBy(behind) or 0
  for _, head in ipairs(heads) do used = used + usedBy(head) end
  -- rule: moved-job-takes-a-free-slot
  if used < slots then wakeAll(heads, limits, false, '') end
end
local priority, id = tonumber(theirs[1]), theirs[3]
local jobKey = BASE .. id
local result = bullmq(redis, KEYS, theirs)
local job = result == 0 and redis.call('HMGET', jobKey, 'redlock:lines', 'timestamp', 'delay', 'finishedOn',
  'redlock:ranked', 'redlock:share')
if not (job and job[1]) then return result end
local seq = nextSeq()
if job[3] == ASLEEP_DELAY then
  redis.call('ZADD', DELAYED, 'XX', asleepScore(seq, priority), id)
end
local score = rankOf(priority, seq)
if theirs[4] == '1' then score = priority == 0 and -seq or rankOf(priority, 0) end
-- rule: ready-jobs-by-their-priority
if job[6] then rules('shares').rank(id, job[6], score) end
if job[5] and not job[4] then -- One that holds its line stays first.
  local resources, place = resourcesOf(job[1]), placeOf(id, job[2])
  for _, resource in ipairs(resources) do redis.call('ZADD', lineKey(resource), 'XX', score, place) end
  for _, resource in ipairs(resources) do wakeWhereFree(resource) end
end
return result
