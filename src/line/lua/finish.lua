--[[
  Takes the place of `moveToFinished`.

  ARGV  1 space · 2 slots · 3 base · 4 job id · 5 '1': the next job is offered · 6 'leave' | 'hold'
        7 the next goes to the 'front' | 'back' · 8 lines (JSON), '' to look them up, '-' for none
        9 timestamp of the job · 10 burst of the line · 11 its share or '' · 12 ms to count for it
  Returns  as BullMQ's, a fetched job with its turn
  Keeps: a job that another worker owns leaves nothing. Where a job is offered and fewer jobs wait
  than run, none is fetched. The bursts of a process end together, so most of those were offered.
]]
--- @include "asleep"
local function whole(resumes)
  --- @include "keys"
  --- @include "limits"
  --- @include "shares"
  --- @include "line"
local base, id, ending, lines, timestamp = ARGV[3], ARGV[4], ARGV[6], ARGV[8], ARGV[9]
local jobKey, front, resources = base .. id, ARGV[7] == 'front', nil
-- What follows BullMQ's part.
local function ended(result, woken, place)
  local isFinished, next = type(result) == 'table' or result == 0 or result == -1, woken.next
  resources = resources or lines ~= '-' and cjson.decode(lines) or {}
  if isFinished and place then
    for _, resource in ipairs(resources) do redis.call('ZREM', lineKey(resource), place) end
  elseif isFinished and ending == 'hold' and redis.call('EXISTS', jobKey) == 1 then
    -- rule: failed-job-holds-its-line
    redis.call('HSET', jobKey, 'redlock:holds', 1)
  end
  if next and next.isFetched then woken[next.jobKey] = next
  elseif next and isFinished then woken = wakeHeads(resources, front, ARGV[10], base) end
  local fetched = type(result) == 'table' and type(result[1]) == 'table'
  if not fetched then mark(woken, base) end -- A fetch leaves a mark by itself.
  return withTurn(result, base, woken)
end
if resumes then return joining, ended end

local woken, place = {}, nil
if lines == '' then
  local job = redis.call('HMGET', jobKey, 'redlock:lines', 'timestamp')
  lines, timestamp = job[1] or '-', job[2]
end
if ARGV[11] ~= '' then charge(base, ARGV[11], tonumber(ARGV[12])) end
resources = lines ~= '-' and cjson.decode(lines) or {}
if ending == 'leave' and #resources > 0 then
  place = placeOf(base, id, timestamp)
  if ARGV[5] == '1' and redis.call('LLEN', base .. 'wait') < redis.call('LLEN', base .. 'active')
    and (ARGV[11] == '' or redis.call('ZCARD', readyKey(base)) == 0) then theirs[6] = '0' end
  woken = wakeHeads(resources, front, ARGV[10], base, place, front and theirs[6] == '1')
end
return ended(bullmq(joining(base, woken.next), KEYS, theirs), woken, place)
end
--- @include "usual-fetch"
-- The sleeping job of a place in the same line; nil for a dead or an unusual one.
local function sleeping(place, lines)
  if string.sub(place, 1, #base) ~= base then return nil end
  local id, length, timestamp = string.match(place, '^(.*) (%d+) (%S+)$', #base + 1)
  if tonumber(length) ~= #base then return nil end
  local jobKey = base .. id
  local job = redis.call('HMGET', jobKey, 'timestamp', 'delay', 'redlock:lines', 'priority',
    'finishedOn', 'redlock:held', 'redlock:rate', 'redlock:share', 'redlock:slots')
  if job[1] ~= timestamp or job[2] ~= ASLEEP_DELAY or job[3] ~= lines or job[4] ~= '0' then return nil end
  if job[5] or job[6] or job[7] or job[8] or job[9] then return nil end
  return {place = place, jobKey = jobKey, base = base, id = id, asleep = true, priority = 0, lines = lines}
end

local function usual()
  local lines, place, line = ARGV[8], nil, nil
  if ARGV[2] ~= '1' or ARGV[5] == '1' or ARGV[6] ~= 'leave' or ARGV[11] ~= '' then return nil end
  if lines ~= '-' then
    local resource = only(lines)
    if not resource then return nil end
    line, place = lineOf(resource), base .. ARGV[4] .. ' ' .. #base .. ' ' .. ARGV[9]
    local places = redis.call('ZRANGE', line, 0, 2)
    if places[1] ~= place then return nil end
    if places[2] then
      if ARGV[7] ~= 'front' or theirs[6] ~= '1' then return nil end
      next = sleeping(places[2], lines)
      if not next then return nil end
      next.followed = places[3] ~= nil
    end
  end
  local result = bullmq({pcall = redis.pcall, call = call}, KEYS, theirs)
  if joined or next and not next.isFetched then
    if not joined then unusual() end
    return goOn(result, {burst = ARGV[10], next = next}, place)
  end
  if place and (type(result) == 'table' or result == 0 or result == -1) then redis.call('ZREM', line, place) end
  if not next then
    local reply = usualTurn(result)
    if reply then return reply end
    unusual()
    return goOn(result, {burst = ARGV[10]}, place)
  end
  result[5], result[6], result[7], result[8] = 'woken', lines, ARGV[10], next.followed and '1' or ''
  result[9], result[10], result[11] = '', '', 0
  return result
end
return usual() or whole()
