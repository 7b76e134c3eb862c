--[[
  Takes the place of `moveToFinished`, for the jobs that end in one turn of the event loop.

  KEYS  BullMQ's, for a completed job; 11 to 13 are other ones for each job
  ARGV  base · slots · opts: of BullMQ, with those of the worker
        steps: the results of a job's steps end with it
        jobs: of each, what is not usual with it
          target: 'failed' · opts: its own
          keeps: fetches no other · back: the next goes behind the jobs that wait
          runs: how many jobs its worker has; an idle one with two fewer gets the next of its line
          holds: keeps its places if it is not removed
          lines: JSON, of one that holds and has none yet
          share: its own · chargeMs: what to count for it · fields: to update
          run: how often it had started, and when last, of one whose lock was missing
  `theirs`  at: ms; then of each job
        id · token · timestamp · lines: JSON, '' where the queue's Redis has to say · burst: of its line
        value: what it returned, or failed with
  Returns  JSON: for each job what BullMQ's script returns, a fetched job with its turn; or [error]
  Keeps: a job that another worker owns, or has owned, leaves nothing.
]]
--- @include "line"
--- @include "turn"
local rcall = seen
--- @bullmq functions
--- @include "fetch-sleeping"
--- @include "together"
local removeKeys, areSteps = removeJobKeys, nil
removeJobKeys = function(jobKey)
  if areSteps == nil then areSteps = redis.call('EXISTS', SPACE .. 'stores') == 1 end
  -- rule: trimmed-job-ends-its-steps
  if areSteps and string.sub(jobKey, 1, #BASE) == BASE then dropSteps(string.sub(jobKey, #BASE + 1)) end
  return removeKeys(jobKey)
end
--- @layer
local isTrimmed, isPromoted = false, false
-- Once the queue gives out jobs, it does so for all of these: each that starts has ended another.
local isClosed, max, duration = true, nil, nil

local function trimOnce(...)
  if isTrimmed then return end
  isTrimmed = true
  trimEvents(...)
end

local at, opts = theirs[1], nil
local function fetchNext(...)
  if upNext and not isPromoted then
    isPromoted = true
    promoteDelayedJobs(DELAYED, MARKER, WAIT, PRIORITIZED, EVENTS, BASE, at, BASE .. 'pc', false)
  end
  if upNext and isClosed then isClosed, max, duration = getQueueMetadata(META, ACTIVE, WAIT) end
  return upNext and fetchSleeping(at, opts, isClosed, max, duration) or fetchNextJob(...)
end
--- @bullmq script, with trimOnce for trimEvents, fetchNext for fetchNextJob

local FIELDS = 6
-- Before all places: those of LIFO jobs have negative scores.
local FIRST = '-9007199254740992'

-- Whether an idle worker runs two jobs fewer. It is taken for granted that it takes the one that is
-- left to it: a worker that has died is idle for a while only.
local left = 0
local function isLeft(runs)
  local worker, fewest = unpack(redis.call('ZRANGE', IDLE, '0', '0', 'WITHSCORES'))
  if not worker or fewest + 1 >= runs - left then return false end
  left = left + 1
  redis.call('ZINCRBY', IDLE, '1', worker)
  return true
end

local endsAs
endsAt = at
local function finish(i)
  local id, token, timestamp, lines, burst, value = unpack(theirs, FIELDS * i - 4, FIELDS * i + 1)
  local job = ARGV.jobs[i]
  local jobKey, fetches, target, place = BASE .. id, not job.keeps, job.target or 'completed', id .. ' ' .. timestamp
  if lines == '' then
    local own = redis.call('HMGET', jobKey, 'redlock:lines', 'timestamp')
    -- rule: job-that-never-ran-holds-its-line
    lines, place = own[1] or job.lines or '[]', placeOf(id, own[2])
  end
  local resources = resourcesOf(lines)
  local leaves = not job.holds and resources[1]
  if job.share then rules('shares').charge(job.share, job.chargeMs) end
  upNext, isTaken = nil, false
  if leaves then
    local isNext = not job.back
    if job.back and not (job.share and redis.call('EXISTS', SPACE .. 'ready') == 1) then
      local waiting = redis.call('LLEN', WAIT)
      if job.runs and fetches and isLeft(job.runs) then fetches = false end
      -- Where nothing waits, behind the jobs that wait is first.
      isNext = waiting == 0 and redis.call('ZCARD', PRIORITIZED) == 0
    end
    upNext = wakeHeads(resources, not job.back, burst, place, fetches and isNext, 'ends')
  end
  local next = upNext
  opts = job.opts or ARGV.opts
  opts.token = token
  -- Its lock ran out, and no other run of it has begun. BullMQ looks whether it is still active.
  if job.run then
    local starts, last = unpack(redis.call('HMGET', jobKey, 'ats', 'processedOn'))
    -- rule: only-the-last-run-ends-without-its-lock
    if (starts or '') .. ' ' .. (last or '') == job.run then
      -- A full server takes this one, and then all others.
      -- rule: job-without-a-lock-ends-on-a-full-server
      redis.call('SREM', KEYS[5], id)
      redis.call('SET', jobKey .. ':lock', token, 'NX', 'PX', '1000')
    end
  end
  KEYS[12] = jobKey
  if target ~= endsAs then
    endsAs, KEYS[11], KEYS[13] = target, BASE .. target, BASE .. 'metrics:' .. target
  end
  local field = target == 'completed' and 'returnvalue' or 'failedReason'
  local result = bullmq(KEYS, {id, at, field, value, target, fetches and '1' or '0', BASE, opts, job.fields})
  -- One that failed and is kept may be retried by hand, and continues where it stopped.
  local isDone = type(result) == 'table' or result == 0
  -- rule: steps-end-with-their-job
  if ARGV.steps and isDone and target == 'completed' then dropSteps(id) end
  if isDone or result == -1 then
    if leaves then
      for j = 1, #resources do redis.call('ZREM', lineKey(resources[j]), place) end
      if next and not isTaken then wakeHeads(resources, not job.back, burst, nil, false, 'ends') end
    elseif job.holds and redis.call('EXISTS', jobKey) == 1 then
      -- rule: failed-job-holds-its-line
      redis.call('HSET', jobKey, 'redlock:holds', at) -- As its `finishedOn`.
      if resources[1] then redis.call('HSET', jobKey, 'redlock:lines', lines) end
      -- rule: no-job-passes-one-that-holds
      for _, resource in ipairs(resources) do redis.call('ZADD', lineKey(resource), FIRST, place) end
    end
  end
  return withTurn(result, isTaken and next, burst)
end

local replies = together(#ARGV.jobs, finish)
return replies.err and replies or cjson.encode(replies)
