--[[
  The usual way of a job: it has one resource whose line has no limits and one slot, and no rate,
  share or priority. It leaves its line, and the next job sleeps behind it or none does. These few
  lines are all that such a job runs. The rules of a line have many functions, and Redis makes each
  of them anew in every script. So they are made when something unusual is met, and go on from there.
  What is decided here, they decide in the same way.

  `whole()` runs the rules and what follows them, and returns functions of them: `joining` first.
  BullMQ is given `next`, a sleeping job, in place of the first job that waits.
]]
local base = ARGV[3]
local wait, prioritized, marker = base .. 'wait', base .. 'prioritized', base .. 'marker'
local next, joined, goOn -- luacheck: ignore 221

-- A fetch leaves a mark, by which an idle worker looks for more jobs. Behind `next` it would find
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
local function only(lines) return string.match(lines, '^%["([^"\\]+)"%]$') end
local function lineOf(resource) return ARGV[1] .. 'line:' .. resource end

-- As `withTurn`, of a job that was not woken here; nil where that one has to say it.
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
