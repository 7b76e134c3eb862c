--[[
  How a job leaves its lines.
]]
-- A job leaves its lines, and the next is woken; returns the score of its place.
local function leave(id, lines, timestamp)
  local resources, place, score = resourcesOf(lines), placeOf(id, timestamp), nil
  for _, resource in ipairs(resources) do
    score = redis.call('ZSCORE', lineKey(resource), place) or score
    redis.call('ZREM', lineKey(resource), place)
  end
  -- rule: job-that-leaves-wakes-the-next
  wakeHeads(resources, false, '')
  return score
end
