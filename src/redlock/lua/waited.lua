--[[
  KEYS  1 master
  ARGV  1 name of the quarantine · 2 ms left of it, as this client has counted
  Returns  ms left of it by the longest count of all clients; 0 also where it is not on
  Keeps: only the quarantine that was counted is shortened. Another loss of memory begins another.
]]
local known = redis.call('HMGET', KEYS[1], 'quarantine', 'votesInMs')
-- rule: only-the-counted-quarantine-ends
if known[1] ~= ARGV[1] then return 0 end
local leftMs = math.min(tonumber(known[2]), tonumber(ARGV[2]))
redis.call('HSET', KEYS[1], 'votesInMs', leftMs)
return leftMs
