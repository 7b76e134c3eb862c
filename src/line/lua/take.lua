--[[
  The jobs that sleep behind the first job of a batch. Part of `fetch`.

  ARGV  base · slots · resource: of the batch · most: jobs to take · before: jobs taken for it before
        id, timestamp: of its first job · at: ms · opts: of BullMQ's `moveToActive`
  Returns  of each as a fetch; nothing where the first is not in its line
  Keeps: order. It ends at a job that may not start, or of several resources.
]]
local function take()
  local line, found = lineKey(ARGV.resource), {}
  local rank = redis.call('ZRANK', line, placeOf(ARGV.id, ARGV.timestamp))
  if not rank then return found end
  local _, slots, limits = headsOf(ARGV.resource, nil, false, true)
  if slots == 0 then return found end
  local function wasTaken(job)
    return ARGV.before > 0 and not job.asleep and redis.call('GET', job.jobKey .. ':lock') == ARGV.opts.token
  end
  for _, place in ipairs(redis.call('ZRANGE', line, rank + 1, rank + ARGV.before + ARGV.most)) do
    local job = jobAt(place, true)
    if job and not wasTaken(job) then
      -- rule: batch-ends-at-a-job-that-may-not-start
      if areSeveral(job.lines) or not job.asleep or job.held or opensAt(job, limits) then break end
      if #found == ARGV.most then break end
      upNext = job
      local result = fetchSleeping(ARGV.at, ARGV.opts, getQueueMetadata(META, ACTIVE, WAIT))
      if not result then break end
      rateOpensAt(job.lines, job.rate, true) -- It counts.
      result[5] = {'woken', job.lines, 0}
      found[#found + 1] = result
    end
  end
  return found
end
