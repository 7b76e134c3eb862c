--[[
  The numbers that order places and sleeping jobs.
]]
-- A number that only grows.
local function nextSeq() return redis.call('INCR', SPACE .. 'seq') end

-- The score of a place of a job that was added `within` its priority: as BullMQ orders waiting jobs.
local function rankOf(priority, seq) return string.format('%.0f', priority * 0x100000000 + seq % 0x100000000) end

-- The score of the places that a stored job takes. `since`: of those that it had before. `ranked` and
-- `priority`: as its hash has them.
local function scoreFor(seq, since, ranked, priority)
  -- rule: due-job-joins-by-its-priority
  return since or ranked and rankOf(priority or 0, seq) or seq
end
local function asleepScore(seq, priority)
  local score = ASLEEP + seq * 4
  if priority > 0 then score = ASLEEP_PRIORITIZED + priority * 0x100000000 + (seq * 4) % 0x100000000 end
  return string.format('%.0f', score)
end
