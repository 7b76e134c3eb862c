/**
 * The scripts by which lines move, each in the trip that BullMQ makes anyway: a job and its place
 * are added together; a finished job leaves, wakes the next and fetches; look and park are one.
 */
import { composedScript, type ComposedScript } from './bullmq/composed-script.ts'
import { ASLEEP_VIEW } from './asleep-view.ts'
import { LINE_LIBRARY as library } from './line-library.ts'
import { USUAL_FETCHING, USUAL_FINISH } from './usual-job.ts'

/** A request to cancel a running job stands for this long. */
const CANCEL_TTL_MS = 3_600_000

/**
 * Takes the place of BullMQ's scripts that add a job.
 *
 * ARGV  1 space · 2 slots · 3 resources (JSON) · 4 'added' | 'priority' · 5 deadline ms or ''
 *       6 '1' for a job that may start at once, '' for one that waits for a delay or for children
 *       7 its rate (JSON) or '' · 8 its share or '' · 9 its slots or ''
 * Returns  as BullMQ's
 * Keeps: a job that is stored has its lines, and its places if it may start; it sleeps where others
 * are ahead of it, or where the limits of its line do not let it start. BullMQ decides whether a
 * job is stored, with its rules for ids and deduplication.
 */
const addBody = `
local added = cmsgpack.unpack(theirs[1])
local base, timestamp = added[1], string.format('%.17g', added[4])
local resources, rate, behind, heldUntil = cjson.decode(ARGV[3]), ARGV[7] ~= '' and ARGV[7], false, nil
local share = ARGV[8] ~= '' and ARGV[8]
local seq = ARGV[6] == '1' and nextSeq()
for _, resource in ipairs(ARGV[6] == '1' and resources or {}) do
  local heads, _, slots, limits = headsOf(resource)
  if #heads >= slots then
    behind = true
    wakeAll(heads, limits, false, '') -- The one ahead of it was removed.
    if #heads == 0 then heldUntil = limits.closedUntil end
  end
end
if ARGV[6] == '1' and not behind then
  heldUntil = rateOpensAt(ARGV[3], rate)
  behind = heldUntil ~= nil
end
local sleeps = behind or share and ARGV[6] == '1'

-- The score of a place. 'priority': as BullMQ orders waiting jobs.
local function rank(seq)
  if ARGV[4] ~= 'priority' then return seq end
  local opts = cmsgpack.unpack(theirs[3])
  local priority = opts['priority'] or 0
  if priority == 0 and opts['lifo'] then return -seq end
  return priority * 0x100000000 + seq % 0x100000000
end

local stored
local function store(...)
  local fields = {...}
  stored = fields[2]
  fields[#fields + 1], fields[#fields + 2] = 'redlock:lines', ARGV[3]
  if rate then fields[#fields + 1], fields[#fields + 2] = 'redlock:rate', rate end
  if share then fields[#fields + 1], fields[#fields + 2] = 'redlock:share', share end
  if ARGV[9] ~= '' then fields[#fields + 1], fields[#fields + 2] = 'redlock:slots', ARGV[9] end
  if sleeps then fields[#fields + 1], fields[#fields + 2] = 'delay', ASLEEP_DELAY end
  return redis.call(unpack(fields))
end
local function enqueue(id, ...)
  if base .. id ~= stored then return redis.call(...) end
  local place = placeOf(base, id, timestamp)
  seq = seq or nextSeq()
  local score = string.format('%.0f', rank(seq))
  for _, resource in ipairs(resources) do redis.call('ZADD', lineKey(resource), score, place) end
  if not sleeps then return redis.call(...) end
  local command, _, priority = ...
  priority = command == 'ZADD' and math.floor(priority / 0x100000000) or 0
  redis.call('ZADD', base .. 'delayed', asleepScore(seq, priority), id)
  for _, resource in ipairs(resources) do
    redis.call('ZADD', SPACE .. 'sleeping-lines', 'NX', seq, resource)
  end
  if ARGV[5] ~= '' then redis.call('ZADD', SPACE .. 'line-deadlines', ARGV[5], place) end
  if heldUntil then hold({base = base, id = id, jobKey = base .. id, lines = ARGV[3]}, heldUntil)
  elseif not behind then makeReady(base, id, share, priority, '') end
end

local wait, prioritized, marker = base .. 'wait', base .. 'prioritized', base .. 'marker'
local adding = {pcall = redis.pcall, call = function(...)
  local command, key, first, second = ...
  if command == 'HMSET' then return store(...)
  elseif (command == 'LPUSH' or command == 'RPUSH') and key == wait then return enqueue(first, ...)
  elseif command == 'ZADD' and key == prioritized then return enqueue(second, ...)
  elseif command == 'ZADD' and key == marker and sleeps then return 0
  elseif command == 'ZREM' or command == 'ZSCORE' then return viewOf(base).call(...) end
  return redis.call(...)
end}
return bullmq(adding, KEYS, theirs)
`

/**
 * Takes the place of `moveToFinished`.
 *
 * ARGV  1 space · 2 slots · 3 base · 4 job id · 5 '1': the next job is offered · 6 'leave' | 'hold'
 *       7 the next goes to the 'front' | 'back' · 8 lines (JSON), '' to look them up, '-' for none
 *       9 timestamp of the job · 10 burst of the line · 11 its share or '' · 12 ms to count for it
 * Returns  as BullMQ's, a fetched job with its turn
 * Keeps: a job that another worker owns leaves nothing. Where a job is offered and fewer jobs wait
 * than run, none is fetched. The bursts of a process end together, so most of those were offered.
 */
const finishBody = `
local base, id, ending, lines, timestamp = ARGV[3], ARGV[4], ARGV[6], ARGV[8], ARGV[9]
local jobKey, front, resources = base .. id, ARGV[7] == 'front', nil
-- What follows BullMQ's part.
local function ended(result, woken, place)
  local isFinished, next = type(result) == 'table' or result == 0 or result == -1, woken.next
  resources = resources or lines ~= '-' and cjson.decode(lines) or {}
  if isFinished and place then
    for _, resource in ipairs(resources) do redis.call('ZREM', lineKey(resource), place) end
  elseif isFinished and ending == 'hold' and redis.call('EXISTS', jobKey) == 1 then
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
`

/**
 * Takes the place of `moveToFinished` for several jobs of a batch whose first job still has the
 * line.
 *
 * ARGV  1 space · 2 slots · 3 base · 4 jobs (JSON): id, 'leave' | 'hold', lines (JSON), timestamp;
 *       arguments 2, 3 and 5 to 7; where 8 and 9 are · 5 keys
 * `theirs` has the keys of the first job, argument 4 of each job, and what arguments 8 and 9 refer
 * to. Keys 11 to 13 are other ones for each job.
 * Returns  BullMQ's reply for each
 * Keeps: who leaves wakes no job. The first job of the batch does that when it ends. It is active
 * until then, so the queue is not drained. What is the same for all is done once: the look at
 * locks, and behind the last job the removal of locks, of marks of stalled jobs, and of places.
 */
const finishManyBody = `
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
  -- The first write needs no memory: see \`wake\`.
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
  local result = bullmq(keys, {id, at, property, theirs[count + i], target, fetches, prefix, theirs[opts], theirs[fields]})
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
if #gone > 0 then redis.call('DEL', unpack(gone)) end
if #unmarked > 0 then redis.call('SREM', stalledKey, unpack(unmarked)) end
for lines, places in pairs(left) do
  for _, resource in ipairs(cjson.decode(lines)) do redis.call('ZREM', lineKey(resource), unpack(places)) end
end
return replies
`

/**
 * Takes the place of `moveToActive` for the jobs that sleep behind the first job of a batch.
 *
 * ARGV  1 space · 2 slots · 3 base · 4 its resource · 5 the most jobs · 6 jobs taken for it before
 *       7 token of its worker · 8 id and 9 timestamp of the first; '' where it is the head of the
 *       line, which was given to that worker just now
 * Returns  the id of the first, and [data, id] of each; nothing where the first is not in its line,
 *       or not that worker's
 * Keeps: order. It ends at a job that may not start, of another queue, or of several resources.
 */
const takeBody = `
local base, resource, most, token, id = ARGV[3], ARGV[4], tonumber(ARGV[5]), ARGV[7], ARGV[8]
local line, delayed, meta, first = lineKey(resource), base .. 'delayed', base .. 'meta', nil
local function isLocked(job) return redis.call('GET', job.jobKey .. ':lock') == token end
if id ~= '' then first = placeOf(base, id, ARGV[9])
else
  local places = redis.call('ZRANGE', line, 0, 1)
  first = places[1] == MARK and places[2] or places[1]
  local head = first and jobAt(first)
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
    if isOther or #found > most or not job.asleep or job.held or opensAt(job, limits) then break end
    local result = bullmq(KEYS, theirs)
    if type(result[1]) ~= 'table' then break end
    rateOpensAt(job.lines, job.rate, true) -- It counts.
    found[#found + 1] = {result[1], result[2]}
  end
end
return found
`

/**
 * Takes the place of `moveToFinished` for a job that is cancelled from outside.
 *
 * ARGV  1 space · 2 slots · 3 base · 4 job id · 5 reason
 * Returns  failed: it waited | running: its worker is asked to stop it | finished | missing
 * Keeps: a job that waits fails by BullMQ's own rules, as if a worker had started it.
 */
const cancelBody = `
local base, id = ARGV[3], ARGV[4]
local jobKey = base .. id
local job = redis.call('HMGET', jobKey, 'timestamp', 'finishedOn', 'redlock:lines')
if not job[1] then return 'missing' end
if job[2] then return 'finished' end
if redis.call('EXISTS', jobKey .. ':lock') == 1 then
  redis.call('HSET', SPACE .. 'cancelled', jobKey, cjson.encode({job[1], ARGV[5]}))
  redis.call('PEXPIRE', SPACE .. 'cancelled', ${CANCEL_TTL_MS})
  return 'running'
end
local waited = redis.call('ZREM', base .. 'delayed', id) + redis.call('ZREM', base .. 'prioritized', id)
  + redis.call('ZREM', base .. 'waiting-children', id)
if waited == 0 then waited = redis.call('LREM', base .. 'wait', 1, id) end
if waited > 0 then redis.call('LPUSH', base .. 'active', id) end
local result = bullmq(joining(base), KEYS, theirs)
if result ~= 0 then return redis.error_reply('BullMQ did not fail the job: ' .. tostring(result)) end
if job[3] then leave(base, id, job[3], job[1]) end
return 'failed'
`

/**
 * Takes the place of `moveToActive` and of `moveToDelayed`.
 *
 * ARGV  1 space · 2 slots · 3 base
 * Returns  as BullMQ's, a fetched job with its turn
 */
const fetchBody = `
return joining, function(result) return withTurn(result, ARGV[3]) end
`

/**
 * Takes the place of `moveToDelayed` for a job that has to wait for its turn, if it has to.
 *
 * ARGV  1 space · 2 slots · 3 base · 4 job id · 5 timestamp of the job · 6 resources (JSON)
 *       7 deadline ms, 'late' where it has passed, or '' · 8 limiter key
 *       9 ms before which this worker is not given the job again, where its limits hold it
 * Returns  -100 and the slots that are set: it is its turn | -101 it is not, and too late to wait |
 * as BullMQ's
 * Keeps: the lines of a job stay those that it joined first. A parked job is woken by the job that
 * leaves before it: both looks are in one script.
 */
const parkBody = `
local base, id = ARGV[3], ARGV[4]
local jobKey, place = base .. id, placeOf(base, id, ARGV[5])
notBefore = tonumber(ARGV[9])
local job = redis.call('HMGET', jobKey, 'redlock:lines', 'redlock:since', 'priority', 'timestamp', 'redlock:rate', 'redlock:slots')
if not job[4] then return -1 end
local lines = job[1] or ARGV[6]
local resources = cjson.decode(lines)
local seq = nextSeq()
for _, resource in ipairs(resources) do
  redis.call('ZADD', lineKey(resource), 'NX', job[2] or seq, place)
end
if not job[1] then redis.call('HSET', jobKey, 'redlock:lines', lines) end
-- It was in its lines before, and has come back: the one behind it may have started meanwhile.
local overtaken = false
if job[2] then
  redis.call('HDEL', jobKey, 'redlock:since')
  for _, resource in ipairs(resources) do
    local second = redis.call('ZRANGE', lineKey(resource), 1, 1)[1]
    local other = second and jobAt(second)
    if other and redis.call('EXISTS', other.jobKey .. ':lock') == 1 then overtaken = true end
  end
end
local heldUntil = nil
local isItsTurn, followed, own
if not overtaken then isItsTurn, followed, own = isTurn(lines, place, nil, tonumber(job[6] or nil)) end
if isItsTurn then
  heldUntil = rateOpensAt(lines, job[5], true)
  if not heldUntil then
    if job[5] or next(limited) then startNext(lines, base, own) end
    return {-100, slotsSet(lines, own)}
  end
end
if ARGV[7] == 'late' then return -101 end
local result = bullmq(redis, KEYS, theirs)
if type(result) == 'number' and result < 0 then return result end
redis.call('ZADD', base .. 'delayed', 'XX', asleepScore(seq, tonumber(job[3]) or 0), id)
redis.call('HSET', jobKey, 'delay', ASLEEP_DELAY)
for _, resource in ipairs(resources) do
  redis.call('ZADD', SPACE .. 'sleeping-lines', 'NX', seq, resource)
end
if ARGV[7] ~= '' then redis.call('ZADD', SPACE .. 'line-deadlines', ARGV[7], place) end
-- A start in vain uses no token of a rate limit.
local used = tonumber(redis.call('GET', ARGV[8]) or 0)
if used > 0 and used < 9007199254740991 then redis.call('DECR', ARGV[8]) end
if heldUntil then hold({base = base, id = id, jobKey = jobKey, lines = lines}, heldUntil)
elseif not overtaken then
  for _, resource in ipairs(resources) do
    local heads, _, _, limits = headsOf(resource)
    wakeAll(heads, limits, false, '')
  end
end
return withTurn(result, base)
`

/**
 * Takes the place of `removeJob`.
 *
 * ARGV  1 space · 2 slots · 3 base · 4 job id
 * Returns  as BullMQ's
 * Keeps: who is removed leaves its lines, and the next is woken.
 */
const removeBody = `
local base, id = ARGV[3], ARGV[4]
local job = redis.call('HMGET', base .. id, 'redlock:lines', 'timestamp', 'delay', 'priority')
local view = {pcall = redis.pcall, call = function(...)
  local fields = {...}
  local last = #fields
  if fields[1] == 'XADD' and fields[last] == 'delayed' and job[3] == ASLEEP_DELAY then
    fields[last] = (tonumber(job[4]) or 0) > 0 and 'prioritized' or 'wait'
  end
  return redis.call(unpack(fields))
end}
local result = bullmq(view, KEYS, theirs)
if result == 1 and job[1] then leave(base, id, job[1], job[2]) end
return result
`

/**
 * Takes the place of `moveToWaitingChildren`.
 *
 * ARGV  1 space · 2 slots · 3 base · 4 job id
 * Returns  as BullMQ's
 * Keeps: a job that waits for its children is not ahead of them. It takes its old place again
 * when it goes on.
 */
const yieldBody = `
local base, id = ARGV[3], ARGV[4]
local jobKey = base .. id
local result = bullmq(redis, KEYS, theirs)
local job = result == 0 and redis.call('HMGET', jobKey, 'redlock:lines', 'timestamp')
if job and job[1] then
  local since = leave(base, id, job[1], job[2])
  if since then redis.call('HSET', jobKey, 'redlock:since', since) end
end
return result
`

/**
 * Takes the place of `changePriority`.
 *
 * ARGV  1 space · 2 slots · 3 base · 4 job id · 5 priority · 6 lifo ('1' | '0') · 7 'added' |
 * 'priority'
 * Returns  as BullMQ's
 * Keeps: a sleeping job's new priority holds when it is woken, and in its lines where they have
 * one.
 */
const priorityBody = `
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
`

/**
 * Takes the place of `drain` and of `cleanJobsInSet` for jobs that wait: sleeping jobs are put
 * among those that wait, BullMQ removes what it removes, and the others sleep again.
 *
 * ARGV  1 space · 2 slots · 3 base · 4 'wait' | 'prioritized' | 'both'
 */
const removeWaitingBody = `
local base, which = ARGV[3], ARGV[4]
local delayed, wait, prioritized = base .. 'delayed', base .. 'wait', base .. 'prioritized'
local from = which == 'prioritized' and ASLEEP_PRIORITIZED or ASLEEP
local to = which == 'wait' and '(' .. string.format('%.0f', ASLEEP_PRIORITIZED) or '+inf'
local sleepers = redis.call('ZRANGEBYSCORE', delayed, string.format('%.0f', from), to, 'WITHSCORES')
for i = 1, #sleepers, 2 do
  local id, score = sleepers[i], tonumber(sleepers[i + 1])
  redis.call('ZREM', delayed, id)
  if score < ASLEEP_PRIORITIZED then redis.call('LPUSH', wait, id)
  else redis.call('ZADD', prioritized, sleepers[i + 1], id) end
end
local result = bullmq(redis, KEYS, theirs)
for i = #sleepers - 1, 1, -2 do
  local id, score = sleepers[i], tonumber(sleepers[i + 1])
  if redis.call('EXISTS', base .. id) == 1 then
    if score < ASLEEP_PRIORITIZED then redis.call('LREM', wait, 1, id)
    else redis.call('ZREM', prioritized, id) end
    redis.call('ZADD', delayed, sleepers[i + 1], id)
  end
end
return result
`

/**
 * ARGV  1 space · 2 slots · 3 base. Returns as BullMQ's, with sleeping jobs among those that wait.
 */
const viewBody = `
return bullmq(viewOf(ARGV[3]), KEYS, theirs)
`

/**
 * Takes the place of `promote`.
 *
 * ARGV  1 space · 2 slots · 3 base · 4 job id
 * Returns  as BullMQ's; a sleeping job is not delayed
 * Keeps: a delayed job that may start takes its places before jobs that are added later.
 */
const promoteBody = `
local result = bullmq(viewOf(ARGV[3]), KEYS, theirs)
if result == 0 then joining(ARGV[3]).join(ARGV[4]) end
return result
`

export interface LineScripts {
  /** By the name of BullMQ's script whose place they take. */
  readonly composed: ReadonlyMap<string, ComposedScript>
  readonly park: ComposedScript
  /** Takes the place of `cleanJobsInSet` for jobs that wait. */
  readonly cleanWaiting: ComposedScript
  /** Takes the place of `moveToFinished` for a job that is cancelled. */
  readonly cancel: ComposedScript
  /** Takes the place of `moveToActive` for the jobs of a batch. */
  readonly take: ComposedScript
  /** Takes the place of `moveToFinished` for several jobs. */
  readonly finishMany: ComposedScript
}

/** Commands by which BullMQ moves jobs, of which `joining` sees some. */
const MOVES = ['LPUSH', 'RPUSH', 'ZADD', 'RPOPLPUSH', 'HMSET', 'HSET']
/** What the add script sees. */
const ADDING = ['LPUSH', 'RPUSH', 'ZADD', 'HMSET', 'ZREM', 'ZSCORE']

const ADDS = ['addStandardJob', 'addPrioritizedJob', 'addDelayedJob', 'addParentJob']

/** BullMQ's scripts that show or move sleeping jobs, and must take them for waiting ones. */
const VIEWED = [
  ...['getCounts', 'getCountsPerPriority', 'getJobs', 'getRanges', 'getState', 'getStateV2'],
  ...['changeDelay', 'moveJobsToWait', 'cleanJobsInSet'],
]

let scripts: LineScripts | undefined

export function lineScripts(): LineScripts {
  scripts ??= defineAll()
  return scripts
}

function defineAll(): LineScripts {
  const withView = library + ASLEEP_VIEW
  const composed = [
    ...ADDS.map((name) =>
      composedScript(name, { library: withView, body: addBody, watched: ADDING }),
    ),
    composedScript('promote', { library: withView, body: promoteBody }),
    composedScript('moveToFinished', {
      usual: USUAL_FINISH,
      library,
      body: finishBody,
      watched: MOVES,
    }),
    ...['moveToActive', 'moveToDelayed'].map((name) =>
      composedScript(name, { usual: USUAL_FETCHING, library, body: fetchBody, watched: MOVES }),
    ),
    composedScript('removeJob', { library, body: removeBody, watched: ['XADD'] }),
    composedScript('moveToWaitingChildren', { library, body: yieldBody }),
    composedScript('changePriority', { library, body: priorityBody }),
    composedScript('drain', { library, body: removeWaitingBody }),
    ...VIEWED.map((name) => composedScript(name, { library: withView, body: viewBody })),
  ]
  const removing = { library, body: removeWaitingBody }
  return {
    composed: new Map(composed.map((script) => [script.replaces, script])),
    cleanWaiting: composedScript('cleanJobsInSet', { ...removing, variant: ':waiting' }),
    park: composedScript('moveToDelayed', { library, body: parkBody, variant: ':park' }),
    cancel: composedScript('moveToFinished', { library, body: cancelBody, variant: ':cancel' }),
    take: composedScript('moveToActive', {
      library,
      body: takeBody,
      variant: ':take',
      repeats: true,
      watched: ['RPOPLPUSH', 'ZRANGEBYSCORE', 'ZPOPMIN', 'ZADD', 'DEL', 'HMGET', 'HMSET'],
    }),
    finishMany: composedScript('moveToFinished', {
      library,
      body: finishManyBody,
      variant: ':many',
      repeats: true,
      watched: [...MOVES, 'EXISTS', 'GET', 'DEL', 'SREM', 'HGET', 'XTRIM', 'LLEN'],
    }),
  }
}
