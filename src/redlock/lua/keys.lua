--[[
  The keys of `keyspace.ts`. A call names resources, not keys: that is half of its bytes.
]]
local releasesChannel = namespace .. ':released'
local function leaseKey(resource) return namespace .. ':lease:' .. resource end
local function fenceKey(resource) return namespace .. ':fence:' .. resource end
local function waitersKey(resource) return namespace .. ':wait:' .. resource end
local function nextKey(resource) return namespace .. ':next:' .. resource end
local function tombstoneKey(token) return namespace .. ':tomb:' .. token end
local function flag(forMs)
  flagged = true
  if forMs > redis.call('PTTL', flagKey) then redis.call('SET', flagKey, '1', 'PX', forMs) end
end
