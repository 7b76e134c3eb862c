--[[
  Sets a limit of a resource, or ends some, and wakes the jobs that may start by it.

  ARGV  base · slots · resource · kinds · entry: what is set; absent to end them
        forMs: after which it ends; absent for no end
  Returns  for how long (ms), or '' for no end
]]
--- @include "line"
--- @include "set-limit"
local resource, entry, ends = ARGV.resource, ARGV.entry
if entry then
  entry.since = math.floor(nowMs())
  -- rule: limits-end-by-the-clock-of-the-server
  entry['until'] = ARGV.forMs and math.ceil(nowMs() + ARGV.forMs)
end
for _, kind in ipairs(ARGV.kinds) do ends = setLimit(resource, kind, entry) end
redis.call('ZADD', SPACE .. 'sleeping-lines', 'XX', 0, resource) -- The next sweep looks at it.
wakeHeads({resource}, false, '')
return ends == '' and '' or math.ceil(ends - nowMs())
