--[[
  Whether a holder may still write to a store: the one place that compares what holders have.

  ARGV  store · of a job's steps: job, its id, and lock, BullMQ's token of the run · else lease: its
        resources and slots, and fencingToken
]]
-- What is there instead of the caller, or nil.
local function laterHolder()
  if ARGV.job then
    local jobKey = BASE .. ARGV.job
    -- A write would make the hash of a job again that another program deleted.
    -- rule: job-without-a-hash-keeps-nothing
    if redis.call('EXISTS', jobKey) == 0 then return '' end
    local lock = redis.call('GET', jobKey .. ':lock')
    -- rule: steps-belong-to-the-run-with-the-lock
    if lock == ARGV.lock then return nil end
    return lock or ''
  end
  -- Those of two slots are not comparable, and each slot may store a result.
  -- rule: tokens-of-one-lease-are-compared
  local seen = redis.call('HGET', ARGV.store, 'token:' .. ARGV.lease)
  -- rule: only-a-larger-token-goes-on
  return seen and tonumber(seen) > tonumber(ARGV.fencingToken) and seen or nil
end
