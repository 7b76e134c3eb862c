--[[
  Takes the place of `moveToActive` and of `moveToDelayed`.

  ARGV  base · slots · delays: the job of `moveToDelayed` is due by the server's clock
  Returns  as BullMQ's, a fetched job with its turn
]]
--- @include "line"
--- @include "turn"
-- rule: due-by-the-clock-of-the-server
if ARGV.delays then theirs[2] = math.floor(nowMs()) end
return withTurn(bullmq(joining(), KEYS, theirs))
