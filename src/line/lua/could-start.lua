-- Whether a worker that looks is given a job, if the queue gives out jobs, also one that is just due.
local function couldStart()
  local dueBefore = string.format('%.0f', (math.floor(nowMs()) + 1) * 0x1000)
  -- rule: due-job-could-start
  return isAnyReady() or redis.call('ZCOUNT', DELAYED, '-inf', '(' .. dueBefore) > 0
end
