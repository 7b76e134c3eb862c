--[[
  What the scripts of stored results share.
]]
-- Whether the result in a store may be taken by a job that has a place in a line: see `Dedupe.fresh`.
local function mayTake(began)
  if not ARGV.line then return true end
  local score = redis.call('ZSCORE', lineKey(ARGV.line), placeOf(ARGV.id, ARGV.timestamp))
  local added = math.abs(tonumber(score or 0)) % 0x100000000
  return added <= tonumber(began or 0) % 0x100000000
end
