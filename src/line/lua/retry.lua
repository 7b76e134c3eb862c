--[[
  Takes the place of `retryJob`, by which a failed job starts again at once. BullMQ first puts the delayed
  jobs that are due among those that wait.

  ARGV  base · slots
  Returns  as BullMQ's
]]
--- @include "line"
--- @include "turn"
return bullmq({call = seen, pcall = redis.pcall}, KEYS, theirs)
