--[[
  A job that waits for its turn sleeps in BullMQ's `delayed` set, in a band of scores that no delay
  of a user reaches: from the year 2109 on. Its hash says `delay` = ASLEEP_DELAY, 2^42 ms.

  ASLEEP, 2^54, is the first score of the band: scores are exact in steps of four. Jobs with a
  priority begin at ASLEEP_PRIORITIZED.
]]
local ASLEEP_DELAY = '4398046511104'
local ASLEEP = 18014398509481984
local ASLEEP_PRIORITIZED = 27021597764222976
