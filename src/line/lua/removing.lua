--[[
  For the scripts by which BullMQ removes jobs: a job that it deletes leaves its lines, which are
  `left`. A script that wakes no heads of them leaves that to a sweep.
]]
local left = {}
local function removing(view)
  return {pcall = redis.pcall, call = function(command, key, ...)
    local job = command == 'DEL' and redis.pcall('HMGET', key, 'redlock:lines', 'timestamp') -- It may be no hash.
    -- rule: deleted-job-leaves
    if job and job[1] then
      for _, resource in ipairs(resourcesOf(job[1])) do
        redis.call('ZREM', lineKey(resource), placeOf(string.sub(key, #BASE + 1), job[2]))
        left[#left + 1] = resource
      end
    end
    return view.call(command, key, ...)
  end}
end
