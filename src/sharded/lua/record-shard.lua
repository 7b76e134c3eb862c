--[[
  Records which shard of how many this queue is, where nothing is recorded. `obliterate` takes it.

  ARGV  base · slots · shard: such as '2 of 4'
  Returns  what is recorded
]]
--- @include "line/lua/keys"
redis.call('HSETNX', META, 'redlock:shard', ARGV.shard)
return redis.call('HGET', META, 'redlock:shard')
