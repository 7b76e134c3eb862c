--[[
  ARGV  base · slots · id: of the job · most: completed jobs to look at
  Returns  for each line what `LineFacts` has (JSON) · ms that completed jobs of these lines took · of
  all jobs
]]
--- @include "line"
local job = redis.call('HMGET', BASE .. ARGV.id,
  'redlock:lines', 'timestamp', 'finishedOn', 'redlock:rate', 'redlock:slots')
if not job[1] or job[3] then return {{}, {}, {}} end
local place, lines, own, all = placeOf(ARGV.id, job[2]), {}, {}, {}
-- Until a rate limit of the whole queue counts anew. `queue.rateLimit` sets the largest count.
local started, max = redis.call('GET', BASE .. 'limiter'), redis.call('HGET', META, 'max') or 9007199254740991
local isUsed = started and tonumber(started) >= tonumber(max)
local restMs = isUsed and math.max(0, redis.call('PTTL', BASE .. 'limiter')) or 0
for _, resource in ipairs(resourcesOf(job[1])) do
  local line = lineKey(resource)
  local isMarked = redis.call('ZRANGE', line, 0, 0)[1] == MARK
  local limits = isMarked and rules('limits').of(resource) or {slots = SLOTS}
  local slots = limits.areSet and limits.slots or slotsOf({slots = job[5] or nil}, resource) or SLOTS
  local rank, marks, opensIn = redis.call('ZRANK', line, place), isMarked and 1 or 0, restMs
  if limits.closedUntil then opensIn = limits.closedUntil < math.huge and math.max(restMs, limits.closedUntil - nowMs()) or -1 end
  local interval = job[4] and cjson.decode(job[4]) or {1, 0}
  if limits.rate then interval = {limits.rate.limit, limits.rate.perMs} end
  if rank then
    lines[#lines + 1] = cjson.encode({resource = resource, ahead = rank - marks,
      length = redis.call('ZCARD', line) - marks, slots = math.max(1, limits.closedUntil and SLOTS or slots),
      opensInMs = opensIn, intervalMs = math.min(interval[2] / interval[1], LONGEST_MS)})
  end
end
for _, id in ipairs(redis.call('ZREVRANGE', BASE .. 'completed', 0, ARGV.most - 1)) do
  local done = redis.call('HMGET', BASE .. id, 'processedOn', 'finishedOn', 'redlock:lines')
  if done[1] and done[2] then
    all[#all + 1] = done[2] - done[1]
    if done[3] == job[1] then own[#own + 1] = done[2] - done[1] end
  end
end
return {lines, own, all}
