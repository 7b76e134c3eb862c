--[[
  KEYS  1 store
  ARGV  1 space · 2 slots · 3 line, or '' · 4 place of the job in it
  Returns  the result | false
]]
--- @include "may-take"
local found = redis.call('HMGET', KEYS[1], 'value:result', 'resultBegan')
return found[1] and mayTake(ARGV[3], ARGV[4], found[2]) and found[1]
