--[[
  ARGV  1 the space of our keys · 2 slots, where no others are set
]]
local SPACE, SLOTS = ARGV[1], tonumber(ARGV[2])
local MAX_DEAD = 5000

local function lineKey(resource) return SPACE .. 'line:' .. resource end
-- rule: place-of-one-instance
local function placeOf(base, id, timestamp) return base .. id .. ' ' .. #base .. ' ' .. timestamp end
local function asleepScore(seq, priority)
  local score = ASLEEP + seq * 4
  if priority > 0 then score = ASLEEP_PRIORITIZED + priority * 0x100000000 + (seq * 4) % 0x100000000 end
  return string.format('%.0f', score)
end
