--[[
  Sets or ends a limit of a resource, and wakes the jobs that may start by it.

  KEYS  1 limits
  ARGV  1 space · 2 slots · 3 resource · 4 kind · 5 what is set (JSON), '' to end it
        6 ms after which it ends; '' where 5 says when, if it ends
  Returns  when it ends (ms), or '' for no end
]]
--- @include "asleep"
--- @include "keys"
--- @include "limits"
--- @include "shares"
--- @include "line"
--- @include "set-limit"
local resource, kind, entry = ARGV[3], ARGV[4], ARGV[5] ~= '' and cjson.decode(ARGV[5]) or nil
if entry and ARGV[6] ~= '' then entry['until'] = math.ceil(nowMs() + ARGV[6]) end
local ends = setLimit(resource, kind, entry)
local heads, _, _, limits = headsOf(resource)
redis.call('ZADD', SPACE .. 'sleeping-lines', 'XX', 0, resource) -- The next sweep looks at it.
wakeAll(heads, limits, false, '')
return ends
