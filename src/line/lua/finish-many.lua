--[[
  Takes the place of `moveToFinished` for several jobs of a batch whose first job still has the
  line.

  ARGV  1 space · 2 slots · 3 base · 4 jobs (JSON): id, 'leave' | 'hold', lines (JSON), timestamp;
        arguments 2, 3 and 5 to 7; where 8 and 9 are · 5 keys
  `theirs` has the keys of the first job, argument 4 of each job, and what arguments 8 and 9 refer
  to. Keys 11 to 13 are other ones for each job.
  Returns  BullMQ's reply for each
  Keeps: who leaves wakes no job. The first job of the batch does that when it ends. It is active
  until then, so the queue is not drained. What is the same for all is done once: the look at
  locks, and behind the last job the removal of locks, of marks of stalled jobs, and of places.
]]
--- @include "asleep"
--- @include "keys"
--- @include "limits"
--- @include "shares"
--- @include "line"
local base, jobs, count = ARGV[3], cjson.decode(ARGV[4]), tonumber(ARGV[5])
local keys, lockKeys, lockAt = {unpack(theirs, 1, count)}, {}, {}
local jobKey, attributes, maxEvents, isTrimmed, isDirty
for i, job in ipairs(jobs) do
  lockKeys[i] = base .. job[1] .. ':lock'
  lockAt[lockKeys[i]] = i
end
local locks, joined = redis.call('MGET', unpack(lockKeys)), joining(base)
local gone, unmarked, left, stalledKey, wait, events = {}, {}, {}, keys[5], keys[1], keys[4]
local on = {
  EXISTS = function(key)
    if key ~= jobKey then return nil end
    attributes = redis.call('HMGET', key, 'parentKey', 'parent', 'deid', 'timestamp')
    return attributes[4] and 1
  end,
  HMGET = function(key, a, b, c, d)
    return key == jobKey and a == 'parentKey' and b == 'parent' and c == 'deid' and not d
      and {attributes[1], attributes[2], attributes[3]}
  end,
  GET = function(key) if lockAt[key] then return {locks[lockAt[key]]} end end,
  -- The first write needs no memory: see `wake`.
  DEL = function(key)
    if not lockAt[key] or not isDirty then
      isDirty = true
      return nil
    end
    gone[#gone + 1] = key
    return 1
  end,
  SREM = function(key, id)
    if key ~= stalledKey then return nil end
    unmarked[#unmarked + 1] = id
    return 1
  end,
  HGET = function(key, field)
    if field ~= 'opts.maxLenEvents' then return nil end
    maxEvents = maxEvents or redis.call('HGET', key, field)
    return maxEvents
  end,
  XTRIM = function(key)
    if key ~= events then return nil end
    local before = isTrimmed
    isTrimmed = true
    return before and 0
  end,
  LLEN = function(key) return key == wait and 1 end,
}
local bullmq = bullmqWith({pcall = redis.pcall, call = function(command, key, ...)
  local own = on[command]
  local answer = own and own(key, ...)
  if not answer then return joined.call(command, key, ...) end
  if command == 'GET' then return answer[1] end
  return answer
end})
local replies = {}
for i, job in ipairs(jobs) do
  local id, ending, lines, timestamp, at, property, target, fetches, prefix, opts, fields = unpack(job)
  jobKey = base .. id
  keys[11], keys[12], keys[13] = base .. target, jobKey, base .. 'metrics:' .. target
  local result = bullmq(keys, {id, at, property, theirs[count + i], target, fetches, prefix,
    theirs[opts], theirs[fields]})
  if result == 0 or result == -1 then
    if ending == 'leave' and lines ~= '' then
      left[lines] = left[lines] or {}
      table.insert(left[lines], placeOf(base, id, timestamp))
    end
    if ending == 'hold' and redis.call('EXISTS', base .. id) == 1 then
      redis.call('HSET', base .. id, 'redlock:holds', 1)
    end
  end
  replies[i] = result
end
-- rule: locks-of-a-batch-are-removed
if #gone > 0 then redis.call('DEL', unpack(gone)) end
if #unmarked > 0 then redis.call('SREM', stalledKey, unpack(unmarked)) end
for lines, places in pairs(left) do
  for _, resource in ipairs(cjson.decode(lines)) do redis.call('ZREM', lineKey(resource), unpack(places)) end
end
return replies
