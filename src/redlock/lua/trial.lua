--[[
  Returns  true
  Keeps: nothing is left, and no client's key is touched, because no resource has an empty name.
  Writes as grants, extensions, waiters and releases do, so a server that refuses one of them says so.
]]
local rest = {nextPrefix, tombstonePrefix}
call('SET', leasePrefix, '', 'NX', 'PX', '1', 'GET')
call('SET', fencePrefix, '0', 'PX', '1')
call('ZADD', waitersPrefix, 'NX', '0', '')
call('ZREMRANGEBYSCORE', waitersPrefix, '-inf', '0')
call('ZREM', waitersPrefix, '')
call('ZRANGEBYSCORE', waitersPrefix, '0', '+inf', 'LIMIT', '0', '1')
call('EXISTS', unpack(rest))
for _, key in ipairs(rest) do call('SET', key, '1', 'PX', '1') end
-- Of the flag too: a key that lives longer stays as it is.
call('PEXPIRE', flagKey, '1', 'GT')
call('PTTL', leasePrefix)
call('DEL', leasePrefix, fencePrefix, unpack(rest))
return true
