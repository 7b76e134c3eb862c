--[[
  Takes the place of `changePriority`.

  ARGV  base · slots
  Returns  as BullMQ's
  Keeps: a sleeping job's new priority holds when it is woken, among the ready jobs of its tenant,
  and in its lines where they have one.
]]
--- @include "line"
--- @include "order"
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
  local place = placeOf(id, job[2])
  for _, resource in ipairs(cjson.decode(job[1])) do
    redis.call('ZADD', lineKey(resource), 'XX', score, place)
  end
end
return result
