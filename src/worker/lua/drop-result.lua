--[[
  KEYS  1 store
]]
return redis.call('DEL', KEYS[1])
