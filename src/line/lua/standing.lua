--[[
  Ids of the jobs in a line, from its end on, a part at a time.

  ARGV  base · slots · resource · most: places to look at · longest: how many at the head count
        place, score: to go on before, as the last reply says; absent at the end of the line
  Returns  the place and the score to go on before, '' at the head · ids
  Keeps: a job that stands in the line all the time is named.
]]
--- @include "line"
local line, place = lineKey(ARGV.resource), ARGV.place
local before = place and (redis.call('ZRANK', line, place) or redis.call('ZCOUNT', line, '-inf', ARGV.score))
before = before or math.min(redis.call('ZCARD', line), ARGV.longest)
local from = math.max(0, before - ARGV.most)
local places = before > 0 and redis.call('ZRANGE', line, from, before - 1) or {}
local found = {from > 0 and places[1] or '', from > 0 and redis.call('ZSCORE', line, places[1]) or ''}
for i = #places, 1, -1 do
  local job = jobAt(places[i])
  if job then found[#found + 1] = job.id end
end
return found
