--[[
  Records how many shards the queue has, where nothing is recorded. `obliterate` takes it.

  ARGV  base · slots · shards: their number
  Returns  what is recorded
]]
--- @include "line/lua/keys"
redis.call('HSETNX', META, 'redlock:shards', ARGV.shards)
return redis.call('HGET', META, 'redlock:shards')
