--[[
  Counts jobs that have ended, in the stream of a queue's events.

  KEYS  1 the stream
  ARGV  1 the id after which to count, '' to count nothing · 2 most: events to look at
  Returns  events that were ever added, '' where the server does not say · id of the last event
  looked at · events looked at · of them completed · failed
]]
if redis.call('EXISTS', KEYS[1]) == 0 then return {0, '0-0', 0, 0, 0} end
local info = redis.call('XINFO', 'STREAM', KEYS[1])
local known = {}
for i = 1, #info, 2 do known[info[i]] = info[i + 1] end
local last, completed, failed = known['last-generated-id'], 0, 0
local events = ARGV[1] == '' and {} or redis.call('XRANGE', KEYS[1], '(' .. ARGV[1], '+', 'COUNT', ARGV[2])
for _, event in ipairs(events) do
  local name = event[2][2]
  if name == 'completed' then completed = completed + 1 end
  if name == 'failed' then failed = failed + 1 end
  last = event[1]
end
return {known['entries-added'] or '', last, #events, completed, failed}
