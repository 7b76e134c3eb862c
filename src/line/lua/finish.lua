--[[
  Takes the place of `moveToFinished`, for the jobs that end in one turn of the event loop.

  KEYS  BullMQ's, for a completed job; 11 to 13 are other ones for each job
  ARGV  base · slots · at: ms · worker: options of BullMQ · opts: of the jobs
        of each job, in lists: ids · tokens · timestamps · lines: JSON, '' where the queue's
        Redis has to say · bursts: of the lines
        more: what is not usual with it
          target: 'failed' · opts: of BullMQ
          keeps: fetches no other · back: the next goes behind the jobs that wait
          offers: it is left to other workers · holds: keeps its places if it is not removed
          share: its own · chargeMs: what to count for it · fields: to update
  `theirs` has what each job returned, or failed with.
  Returns  JSON: for each job what BullMQ's script returns, a fetched job with its turn; or [error]
  Keeps: a job that another worker owns leaves nothing. Where a job is offered and fewer jobs wait
  than run, none is fetched: the bursts of a process end together, so most of those were offered.
]]
--- @include "line"
--- @include "turn"
--- @include "fetch-sleeping"
--- @include "together"
local view, isTrimmed, isPromoted, owesMark = joining(), false, false, false
local bullmq, functions = bullmqWith(view, {
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
    return view.next and fetchSleeping(functions, view, at, opts) or functions.fetchNextJob(...)
  end,
})
-- Once the queue gives out jobs, it does so for all of these: each that starts has ended another.
local queueMetadata, metadata = functions.getQueueMetadata, {true}
function functions.getQueueMetadata(...)
  if metadata[1] then metadata = {queueMetadata(...)} end
  return unpack(metadata, 1, 3)
end

local function withWorkers(opts)
  for name, value in pairs(ARGV.worker) do opts[name] = value end
  return opts
end
local usualOpts = withWorkers(ARGV.opts)

local function finish(id, i)
  local job, lines, timestamp, burst = ARGV.more[i], ARGV.lines[i], ARGV.timestamps[i], ARGV.bursts[i]
  local jobKey, fetches, target, place = BASE .. id, not job.keeps, job.target or 'completed', nil
  if lines == '' then
    local own = redis.call('HMGET', jobKey, 'redlock:lines', 'timestamp')
    lines, timestamp = own[1] or '[]', own[2]
  end
  local resources = resourcesOf(lines)
  if job.share then shareRules().charge(job.share, job.chargeMs) end
  view.next, view.isTaken = nil, false
  if not job.holds and resources[1] then
    place = placeOf(id, timestamp)
    local isNext = not job.back
    if job.back and not (job.share and redis.call('EXISTS', KEY.ready) == 1) then
      local waiting = redis.call('LLEN', WAIT)
      if job.offers and waiting < redis.call('LLEN', ACTIVE) then fetches = false end
      -- Where nothing waits, behind the jobs that wait is first.
      isNext = waiting == 0 and redis.call('ZCARD', PRIORITIZED) == 0
    end
    view.next = wakeHeads(resources, not job.back, burst, place, fetches and isNext)
  end
  local next, opts = view.next, job.opts and withWorkers(job.opts) or usualOpts
  opts.token = ARGV.tokens[i]
  KEYS[11], KEYS[12], KEYS[13] = BASE .. target, jobKey, BASE .. 'metrics:' .. target
  local field = target == 'completed' and 'returnvalue' or 'failedReason'
  local result = bullmq(KEYS, {id, ARGV.at, field, theirs[i], target, fetches and '1' or '0', BASE, opts,
    job.fields})
  if type(result) == 'table' or result == 0 or result == -1 then
    if place then
      for _, resource in ipairs(resources) do redis.call('ZREM', lineKey(resource), place) end
      if next and not view.isTaken then wakeHeads(resources, not job.back, burst) end
    elseif job.holds and redis.call('EXISTS', jobKey) == 1 then
      -- rule: failed-job-holds-its-line
      redis.call('HSET', jobKey, 'redlock:holds', 1)
    end
  end
  owesMark = owesMark or view.isTaken
  return withTurn(result, view.isTaken and next, burst)
end

local replies = together(ARGV.ids, finish)
-- The fetch of a sleeping job leaves no mark, by which idle workers look for jobs: often there are none.
if owesMark and (redis.call('LLEN', WAIT) > 0 or redis.call('ZCARD', PRIORITIZED) > 0) then mark() end
return replies.err and replies or cjson.encode(replies)
