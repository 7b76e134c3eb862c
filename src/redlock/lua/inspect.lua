--[[
  Returns  seen, the holder's token or nil, its PTTL ms, the counter or nil
  Keeps: changes nothing.
]]
--- @include "record"
local key = leasePrefix .. resources[1]
return {'seen', call('GET', key), call('PTTL', key), call('GET', fencePrefix .. resources[1])}
