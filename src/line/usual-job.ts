/**
 * The usual way of a job, in Lua: it has one resource whose line has no limits and one slot, and no
 * rate, share or priority. It leaves its line, and the next job sleeps behind it or none does.
 * These few lines are all that such a job runs. The rules of a line (`line-library.ts`) have many
 * functions, and Redis makes each of them anew in every script. So they are made here when
 * something unusual is met, and go on from there.
 *
 * What is decided here, they decide in the same way.
 */
import { ASLEEP_DELAY_MS } from './line-library.ts'

/**
 * `whole()` runs the library and what follows it, and returns functions of them: `joining` first.
 * BullMQ is given `next`, a sleeping job, in place of the first job that waits.
 */
export const USUAL_FETCH: string = `
local base = ARGV[3]
local wait, prioritized, marker = base .. 'wait', base .. 'prioritized', base .. 'marker'
local next, joined, goOn

-- A fetch leaves a mark, by which an idle worker looks for more jobs. Behind \`next\` it would find
-- none: nothing has left the jobs that wait.
local function wakesInVain()
  return next and next.isFetched and redis.call('LLEN', wait) == 0
    and redis.call('ZCARD', prioritized) == 0
end
local function unusual()
  local joining
  joining, goOn = whole(true)
  joined = joining(base, next and not next.isFetched and next or nil)
  return joined
end
local function call(...)
  local command, key, first = ...
  if command == 'HMSET' and next and next.isFetched and key == next.jobKey then
    return redis.call('HMSET', key, 'delay', 0, select(3, ...))
  elseif joined then return joined.call(...)
  elseif command == 'ZADD' and key == marker and wakesInVain() then return 0
  elseif command == 'RPOPLPUSH' and key == wait then
    if next and redis.call('ZREM', base .. 'delayed', next.id) == 1 then
      redis.call('LPUSH', first, next.id)
      next.isFetched = true
      return next.id
    end
    return not next and redis.call(...) or unusual().call(...)
  elseif key == wait or key == prioritized then
    if command == 'LPUSH' or command == 'RPUSH' or command == 'ZADD' then return unusual().call(...) end
  end
  return redis.call(...)
end

-- The resource of a job that has one.
local function only(lines) return string.match(lines, '^%["([^"\\\\]+)"%]$') end
local function lineOf(resource) return ARGV[1] .. 'line:' .. resource end

-- As \`withTurn\`, of a job that was not woken here; nil where that one has to say it.
local function usualTurn(result)
  if type(result) ~= 'table' or type(result[1]) ~= 'table' then return result end
  local job, lines, timestamp, burst = result[1], nil, nil, ''
  for i = 1, #job, 2 do
    local field = job[i]
    if field == 'redlock:lines' then lines = job[i + 1]
    elseif field == 'timestamp' then timestamp = job[i + 1]
    elseif field == 'redlock:burst' then burst = job[i + 1]
    elseif field == 'redlock:rate' or field == 'redlock:share' or field == 'redlock:slots'
      or field == 'redlock:held' then return nil end
  end
  result[5], result[6], result[7], result[8] = 'none', '', burst, ''
  if lines then
    local resource = only(lines)
    local first = resource and redis.call('ZRANGE', lineOf(resource), 0, 1)
    -- rule: fetched-job-is-at-the-head
    if not first or first[1] ~= base .. result[2] .. ' ' .. #base .. ' ' .. timestamp then return nil end
    result[5], result[6], result[8] = 'yes', lines, first[2] and '1' or ''
  end
  result[9], result[10], result[11] = '', '', 0
  return result
end
`

/** Of the scripts that only fetch a job. */
export const USUAL_FETCHING: string = `${USUAL_FETCH}
local result = bullmq({pcall = redis.pcall, call = call}, KEYS, theirs)
local reply = not joined and usualTurn(result)
if reply then return reply end
if not joined then unusual() end
return goOn(result)
`

/** Of the script that finishes a job: see the arguments of that. */
export const USUAL_FINISH: string = `${USUAL_FETCH}
-- The sleeping job of a place in the same line; nil for a dead or an unusual one.
local function sleeping(place, lines)
  if string.sub(place, 1, #base) ~= base then return nil end
  local id, length, timestamp = string.match(place, '^(.*) (%d+) (%S+)$', #base + 1)
  if tonumber(length) ~= #base then return nil end
  local jobKey = base .. id
  local job = redis.call('HMGET', jobKey, 'timestamp', 'delay', 'redlock:lines', 'priority',
    'finishedOn', 'redlock:held', 'redlock:rate', 'redlock:share', 'redlock:slots')
  if job[1] ~= timestamp or job[2] ~= '${ASLEEP_DELAY_MS}' or job[3] ~= lines or job[4] ~= '0' then return nil end
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
`
