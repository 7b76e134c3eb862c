--[[
  Takes the place of scripts that look for the locks of jobs: as BullMQ's, with one key more. See
  `absentKeyIn`.

  ARGV  base · slots
]]
--- @include "keys"
return bullmq(redis, KEYS, theirs)
