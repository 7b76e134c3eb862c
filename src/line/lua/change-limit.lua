--[[
  Sets or ends a limit of a resource, and wakes the jobs that may start by it.

  ARGV  base · slots · resource · kind · entry: what is set; absent to end it
        forMs: after which it ends; absent for no end
  Returns  for how long (ms), or '' for no end
]]
--- @include "line"
--- @include "set-limit"
local resource, kind, entry = ARGV.resource, ARGV.kind, ARGV.entry
if entry then
  entry.since = math.floor(nowMs())
  -- rule: limits-end-by-the-clock-of-the-server
  entry['until'] = ARGV.forMs and math.ceil(nowMs() + ARGV.forMs)
end
local ends = setLimit(resource, kind, entry)
redis.call('ZADD', SPACE .. 'sleeping-lines', 'XX', 0, resource) -- The next sweep looks at it.
wakeHeads({resource}, false, '')
return ends == '' and '' or math.ceil(ends - nowMs())
