--[[
  Takes the place of `moveToFinished`, for the jobs that end in one turn of the event loop.

  KEYS  BullMQ's, for a completed job; 11 to 13 are other ones for each job
  ARGV  base · slots · at: ms · worker: options of BullMQ · opts: of the jobs · ends: of each job
        id · token · target: 'completed' | 'failed' · fetches: the next job
        opts: of BullMQ, where they are other ones
        lines: JSON; absent where the queue's Redis has to say · timestamp: of the job
        holds: it keeps its places if it is not removed
        front: the next goes before the jobs that wait · offers: it is left to other workers
        burst: of the line · share: its own · chargeMs: what to count for it · fields: to update
  `theirs` has what each job returned, or failed with.
  Returns  JSON: for each job what BullMQ's script returns, a fetched job with its turn; or [error]
  Keeps: a job that another worker owns leaves nothing. Where a job is offered and fewer jobs wait
  than run, none is fetched: the bursts of a process end together, so most of those were offered.
]]
--- @include "keys"
--- @include "limits"
--- @include "shares"
--- @include "line"
--- @include "fetch-sleeping"
--- @include "together"
local view, isTrimmed, isPromoted, owesMark = joining(), false, false, false
local bullmq = bullmqWith(view, {
  trimEvents = function(functions, ...)
    if isTrimmed then return end
    isTrimmed = true
    functions.trimEvents(...)
  end,
  fetchNextJob = function(functions, ...)
    local at, opts = select(select('#', ...) - 1, ...)
    if view.next and not isPromoted then
      isPromoted = true
      functions.promoteDelayedJobs(DELAYED, MARKER, WAIT, PRIORITIZED, BASE .. 'events', BASE, at, BASE .. 'pc',
        false)
    end
    return view.next and fetchSleeping(functions, view.next, at, opts) or functions.fetchNextJob(...)
  end,
})

local function withWorkers(opts)
  for name, value in pairs(ARGV.worker) do opts[name] = value end
  return opts
end
local usualOpts = withWorkers(ARGV.opts)

local function finish(job, value)
  local id, lines, timestamp = job.id, job.lines, job.timestamp
  local jobKey, fetches, woken, place = BASE .. id, job.fetches, {}, nil
  if not lines then
    local own = redis.call('HMGET', jobKey, 'redlock:lines', 'timestamp')
    lines, timestamp = own[1] or '[]', own[2]
  end
  local resources = resourcesOf(lines)
  if job.share then charge(job.share, job.chargeMs) end
  if not job.holds and resources[1] then
    place = placeOf(id, timestamp)
    if job.offers and redis.call('LLEN', WAIT) < redis.call('LLEN', ACTIVE)
      and not (job.share and redis.call('EXISTS', READY) == 1) then fetches = false end
    woken = wakeHeads(resources, job.front, job.burst or '', place, job.front and fetches)
  end
  view.next = woken.next
  local opts = job.opts and withWorkers(job.opts) or usualOpts
  opts.token = job.token
  KEYS[11], KEYS[12], KEYS[13] = BASE .. job.target, jobKey, BASE .. 'metrics:' .. job.target
  local property = job.target == 'completed' and 'returnvalue' or 'failedReason'
  local result = bullmq(KEYS, {id, ARGV.at, property, value, job.target, fetches and '1' or '0', BASE,
    opts, job.fields})
  local isFinished, next = type(result) == 'table' or result == 0 or result == -1, woken.next
  if isFinished and place then
    for _, resource in ipairs(resources) do redis.call('ZREM', lineKey(resource), place) end
  elseif isFinished and job.holds and redis.call('EXISTS', jobKey) == 1 then
    -- rule: failed-job-holds-its-line
    redis.call('HSET', jobKey, 'redlock:holds', 1)
  end
  if next and next.isFetched then
    woken[next.jobKey] = next
    owesMark = true
  elseif next and isFinished then woken = wakeHeads(resources, job.front, job.burst or '') end
  if type(result) ~= 'table' or type(result[1]) ~= 'table' then mark(woken) end -- A fetch leaves one by itself.
  return withTurn(result, woken)
end

local replies = together(ARGV.ends, function(job, i) return finish(job, theirs[i]) end)
-- The fetch of a sleeping job leaves no mark, by which idle workers look for jobs: often there are none.
if owesMark and (redis.call('LLEN', WAIT) > 0 or redis.call('ZCARD', PRIORITIZED) > 0) then mark({true}) end
return replies.err and replies or cjson.encode(replies)
