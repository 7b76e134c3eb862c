--[[
  Whether the result in a store may be taken by the job of a place: see `Dedupe.fresh`.
]]
local function mayTake(line, place, began)
  if line == '' then return true end
  local score = redis.call('ZSCORE', ARGV[1] .. 'line:' .. line, place)
  local added = math.abs(tonumber(score or 0)) % 0x100000000
  return added <= tonumber(began or 0) % 0x100000000
end
