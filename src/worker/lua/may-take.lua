--[[
  What the scripts of stored results share.
]]
-- Whether the result in a store may be taken by a job: see `Dedupe.fresh`.
local function mayTake(began)
  if not ARGV.line then return true end
  local score = redis.call('ZSCORE', lineKey(ARGV.line), placeOf(ARGV.id, ARGV.timestamp))
  -- rule: fresh-needs-a-place
  if not score then return false end
  local joined = math.abs(score) % 0x100000000
  -- It was put before all others: its place does not say when it was added.
  -- rule: fresh-needs-a-known-place
  if joined == 0 then return false end
  return joined <= tonumber(began or 0) % 0x100000000
end
