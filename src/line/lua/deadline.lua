--[[
  How long a job may wait.

  ARGV  maxWaitMs: nil for no limit · dueAt: ms from which it waits, where the queue's Redis has not
        noted it
]]
-- `from`: since when the job could start, as its hash says; the time at which it has waited too long, or
-- nil.
local function deadlineFrom(from)
  -- rule: wait-is-counted-from-when-it-could-start
  return ARGV.maxWaitMs and (from or ARGV.dueAt) + ARGV.maxWaitMs
end
