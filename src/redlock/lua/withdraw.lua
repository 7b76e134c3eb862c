--[[
  Returns  true
]]
for i = 1, count do call('ZREM', waitersPrefix .. resources[i], waiter) end
return true
