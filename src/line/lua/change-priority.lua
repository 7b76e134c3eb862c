--[[
  Takes the place of `changePriority`.

  ARGV  1 space · 2 slots · 3 base · 4 job id · 5 priority · 6 lifo ('1' | '0') · 7 'added' |
  'priority'
  Returns  as BullMQ's
  Keeps: a sleeping job's new priority holds when it is woken, and in its lines where they have
  one.
]]
--- @include "asleep"
--- @include "keys"
--- @include "limits"
--- @include "shares"
--- @include "line"
local base, id, priority = ARGV[3], ARGV[4], tonumber(ARGV[5])
local jobKey, delayed = base .. id, base .. 'delayed'
local result = bullmq(redis, KEYS, theirs)
local job = result == 0 and redis.call('HMGET', jobKey, 'redlock:lines', 'timestamp', 'delay')
if not (job and job[1]) then return result end
local seq = nextSeq()
if job[3] == ASLEEP_DELAY then
  redis.call('ZADD', delayed, 'XX', asleepScore(seq, priority), id)
end
if ARGV[7] == 'priority' then
  local place = placeOf(base, id, job[2])
  local rank = priority * 0x100000000 + seq % 0x100000000
  if ARGV[6] == '1' then rank = priority == 0 and -seq or priority * 0x100000000 end
  for _, resource in ipairs(cjson.decode(job[1])) do
    redis.call('ZADD', lineKey(resource), 'XX', string.format('%.0f', rank), place)
  end
end
return result
