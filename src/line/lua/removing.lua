--[[
  For the scripts by which BullMQ removes jobs: a job that it deletes leaves its lines, which are
  `left`, and is not ready any more. A script that wakes no heads of them leaves that to a sweep. So
  does the removal of a child in another queue: a sweep there drops its place.
]]
--- @include "ready"
local left = {}
local function removing(view)
  return {pcall = redis.pcall, call = function(command, key, ...)
    -- rule: job-of-another-queue-leaves-no-line-here
    local isOurs = command == 'DEL' and string.sub(key, 1, #BASE) == BASE
    -- It may be no hash.
    local job = isOurs and redis.pcall('HMGET', key, 'redlock:lines', 'timestamp', 'redlock:share', 'redlock:steps')
    local id = isOurs and string.sub(key, #BASE + 1)
    if job and job[4] then dropSteps(id) end
    -- rule: deleted-job-leaves
    if job and job[1] then
      if job[3] then leaveReady(id, job[3]) end
      redis.call('ZREM', SPACE .. 'deadlines', placeOf(id, job[2]))
      for _, resource in ipairs(resourcesOf(job[1])) do
        redis.call('ZREM', lineKey(resource), placeOf(id, job[2]))
        left[#left + 1] = resource
      end
    end
    return view.call(command, key, ...)
  end}
end
