--[[
  Returns  able
  Keeps: nothing is left, and no client's key is touched, because no resource has an empty name.
  Writes as grants, extensions, waiters and releases do, so a server that refuses one of them says so.
]]
local function trial()
  local lease, fence, waiters = leaseKey(''), fenceKey(''), waitersKey('')
  local rest = {nextKey(''), tombstoneKey('')}
  redis.call('SET', lease, '', 'NX', 'PX', 1, 'GET')
  redis.call('SET', fence, '0', 'PX', 1)
  redis.call('ZADD', waiters, 'NX', 0, '')
  redis.call('ZREMRANGEBYSCORE', waiters, '-inf', 0)
  redis.call('ZREM', waiters, '')
  redis.call('ZRANGEBYSCORE', waiters, 0, '+inf', 'LIMIT', 0, 1)
  redis.call('EXISTS', unpack(rest))
  for _, key in ipairs(rest) do redis.call('SET', key, '1', 'PX', 1) end
  -- Of the flag too: a key that lives longer stays as it is.
  redis.call('PEXPIRE', flagKey, 1, 'GT')
  redis.call('PTTL', lease)
  redis.call('DEL', lease, fence, unpack(rest))
  return {'able'}
end
