--[[
  For the scripts by which BullMQ removes jobs: a job that it deletes leaves its lines, which are
  `left`, and is not ready any more.
]]
--- @include "ready"
local left, removed = {}, {}
-- Lua passes no more values at once.
local BULK = 4000
local function removeAll(key, members)
  for i = 1, #members, BULK do
    redis.call('ZREM', key, unpack(members, i, math.min(i + BULK - 1, #members)))
  end
end
-- Runs BullMQ's script with a view.
local function removing(view, run)
  -- Jobs of the same resources leave together.
  local placesOf, deadlines = {}, {}
  local function leave(id, lines, timestamp)
    local places, place = placesOf[lines] or {}, placeOf(id, timestamp)
    placesOf[lines] = places
    places[#places + 1], deadlines[#deadlines + 1], removed[#removed + 1] = place, place, id
  end
  local result = run({pcall = redis.pcall, call = function(command, key, ...)
    if command ~= 'DEL' then return view.call(command, key, ...) end
    -- rule: job-of-another-queue-leaves-no-line-here
    if string.sub(key, 1, #BASE) == BASE then
      local id = string.sub(key, #BASE + 1)
      -- It may be no hash.
      local job = redis.pcall('HMGET', key, 'redlock:lines', 'timestamp', 'redlock:share', 'redlock:steps')
      if job[4] then dropSteps(id) end
      if job[1] and job[3] then leaveReady(id, job[3]) end
      -- rule: deleted-job-leaves
      if job[1] then leave(id, job[1], job[2]) end
    else
      local job = redis.pcall('HMGET', key, 'redlock:lines', 'timestamp')
      local space, id = string.match(key, '^(.*:)(.*)$')
      -- rule: job-of-another-queue-leaves-its-lines
      for _, resource in ipairs(resourcesOf(job[1] or '[]')) do
        redis.call('ZREM', space .. 'redlock:::line:' .. resource, placeOf(id, job[2]))
      end
    end
    return redis.call(command, key, ...)
  end})
  removeAll(SPACE .. 'deadlines', deadlines)
  for lines, places in pairs(placesOf) do
    for _, resource in ipairs(resourcesOf(lines)) do
      removeAll(lineKey(resource), places)
      left[#left + 1] = resource
    end
  end
  return result
end
