--[[
  For the scripts that set limits.
]]
--- @include "limits-in-force"
-- Sets one kind of limit, or ends it where `entry` is nil; drops what has ended.
-- Returns when that limit ends, or ''. Of two sleeps the later end counts.
local function setLimit(resource, kind, entry)
  local set, hasEndedRate = inForce(redis.call('HGET', SPACE .. 'limits', resource))
  if kind then
    local before = set[kind] and set[kind]['until']
    if entry and before and kind == 'asleep' then entry['until'] = math.max(before, entry['until']) end
    set[kind] = entry
  end
  local first = math.huge
  for _, each in pairs(set) do first = math.min(first, each['until'] or math.huge) end
  -- Its account begins anew.
  if hasEndedRate or kind == 'rate' then redis.call('DEL', SPACE .. 'rate:' .. resource) end
  limited = nil
  local line = lineKey(resource)
  if next(set) then
    redis.call('HSET', SPACE .. 'limits', resource, cjson.encode(set))
    redis.call('ZADD', line, '-inf', MARK)
  else
    redis.call('HDEL', SPACE .. 'limits', resource)
    redis.call('ZREM', line, MARK)
  end
  if first < math.huge then redis.call('ZADD', SPACE .. 'limits-until', first, resource)
  else redis.call('ZREM', SPACE .. 'limits-until', resource) end
  return entry and entry['until'] or ''
end
