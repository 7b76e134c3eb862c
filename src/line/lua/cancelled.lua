--[[
  ARGV  base · ids: of jobs
  Returns  the request for each, or false
]]
--- @include "keys"
if redis.call('EXISTS', SPACE .. 'cancelled') == 0 then return {} end
local MOST = 1000 -- Lua has room for some thousand arguments.
local found = {}
for from = 1, #ARGV.ids, MOST do
  local some = redis.call('HMGET', SPACE .. 'cancelled', unpack(ARGV.ids, from, math.min(from + MOST - 1, #ARGV.ids)))
  for i = 1, #some do found[#found + 1] = some[i] end
end
return found
