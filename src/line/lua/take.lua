--[[
  Takes the place of `moveToActive` for the jobs that sleep behind the first job of a batch.

  ARGV  1 space · 2 slots · 3 base · 4 its resource · 5 the most jobs · 6 jobs taken for it before
        7 token of its worker · 8 id and 9 timestamp of the first; '' where it is the head of the
        line, which was given to that worker just now
  Returns  the id of the first, and [data, id] of each; nothing where the first is not in its line,
        or not that worker's
  Keeps: order. It ends at a job that may not start, of another queue, or of several resources.
]]
--- @include "asleep"
--- @include "keys"
--- @include "limits"
--- @include "shares"
--- @include "line"
local base, resource, most, token, id = ARGV[3], ARGV[4], tonumber(ARGV[5]), ARGV[7], ARGV[8]
local line, delayed, meta, first = lineKey(resource), base .. 'delayed', base .. 'meta'
local function isLocked(job) return redis.call('GET', job.jobKey .. ':lock') == token end
if id ~= '' then first = placeOf(base, id, ARGV[9])
else
  local places = redis.call('ZRANGE', line, 0, 1)
  first = places[1] == MARK and places[2] or places[1]
  local head = first and jobAt(first)
  -- rule: batch-of-the-worker-that-has-its-first-job
  if not head or head.base ~= base or not isLocked(head) then return {} end
  id = head.id
end
local found, rank = {id}, redis.call('ZRANK', line, first)
if not rank then return {} end
local _, _, slots, limits = headsOf(resource)
if slots == 0 then return found end
local job, settings
-- BullMQ is given this job alone: none that waits, has a delay, or has a priority.
local bullmq = bullmqWith({pcall = redis.pcall, call = function(command, key, ...)
  if command == 'RPOPLPUSH' then
    if redis.call('ZREM', delayed, job.id) == 0 then return false end
    redis.call('LPUSH', base .. 'active', job.id)
    return job.id
  elseif command == 'ZRANGEBYSCORE' or command == 'ZPOPMIN' then return {}
  elseif command == 'ZADD' or command == 'DEL' then return 0
  elseif command == 'HMGET' and key == meta then
    settings = settings or redis.call(command, key, ...)
    return settings
  elseif command == 'HMSET' and key == job.jobKey then return redis.call(command, key, 'delay', 0, ...) end
  return redis.call(command, key, ...)
end})
for _, place in ipairs(redis.call('ZRANGE', line, rank + 1, rank + ARGV[6] + most)) do
  job = jobAt(place)
  local isTaken = job and ARGV[6] ~= '0' and not job.asleep and isLocked(job)
  if job and not isTaken then
    local isOther = job.base ~= base or string.find(job.lines, '","', 1, true)
    -- rule: batch-ends-at-a-job-that-may-not-start
    if isOther or #found > most or not job.asleep or job.held or opensAt(job, limits) then break end
    local result = bullmq(KEYS, theirs)
    if type(result[1]) ~= 'table' then break end
    rateOpensAt(job.lines, job.rate, true) -- It counts.
    found[#found + 1] = {result[1], result[2]}
  end
end
return found
