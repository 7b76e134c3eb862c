--[[
  Returns  true
  Keeps: no client's key is touched, because no resource has an empty name, and nothing is written:
  none of these keys exists. A server that refuses what grants, extensions, waiters and releases
  write says so all the same, and one that grants has nothing to store on its disk.
]]
local rest = {nextPrefix, tombstonePrefix}
call('SET', leasePrefix, '', 'XX', 'PX', '1', 'GET')
call('SET', fencePrefix, '0', 'XX', 'PX', '1')
call('ZADD', waitersPrefix, 'XX', '0', '')
call('ZREMRANGEBYSCORE', waitersPrefix, '-inf', '0')
call('ZREM', waitersPrefix, '')
call('ZRANGEBYSCORE', waitersPrefix, '0', '+inf', 'LIMIT', '0', '1')
for _, key in ipairs(rest) do call('SET', key, '1', 'XX', 'PX', '1') end
-- Of the flag too: a key that lives longer stays as it is.
call('PEXPIRE', flagKey, '1', 'GT')
for _, reads in ipairs({'EXISTS', 'MGET', 'PTTL'}) do call(reads, leasePrefix) end
call('DEL', leasePrefix, fencePrefix, unpack(rest))
return true
