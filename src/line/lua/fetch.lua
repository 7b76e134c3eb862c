--[[
  Takes the place of `moveToActive` and of `moveToDelayed`.

  ARGV  base · slots
  Returns  as BullMQ's, a fetched job with its turn
]]
--- @include "line"
--- @include "turn"
return withTurn(bullmq({call = seen, pcall = redis.pcall}, KEYS, theirs))
