--[[
  Takes a master out of every fleet, as a step of a resize.

  KEYS  1 master
  ARGV  1 runId · 2 goal, a text that names one resize · 3 of how many masters it is one, 0 for a new one
        4 1 where this resize has opened a master · 5… the goals that this one replaces
  Returns  closed: it remembers every lease that it granted | forgot: it may have lost some
           | open: this resize has opened it | late: it lost its memory since
           | another, goal | mismatch, fleetSize
  Keeps: from now on no client is enrolled here, so nothing is granted or extended until a resize opens
  the master. Until it is opened, a later call knows that it forgot leases. A master that has voted since
  it was opened, and forgot, is not opened a second time.
]]
local known = redis.call('HMGET', KEYS[1], 'runId', 'resizing', 'resized', 'fleetSize', 'votesInMs', 'retired',
  'forgot')
local goal, isClosed = ARGV[2], known[2] == ARGV[2]
for i = 5, #ARGV do isClosed = isClosed or known[2] == ARGV[i] end
if known[2] and not isClosed then return {'another', known[2]} end
if not isClosed then
  if known[3] == goal then return {'open'} end
  -- rule: forgotten-master-is-not-opened-again
  if ARGV[4] == '1' then return {'late'} end
  local isFree = not known[1] or known[6] or tonumber(known[5] or '0') > 0
  if ARGV[3] == '0' and not isFree then return {'mismatch', known[4] or '0'} end
  if ARGV[3] ~= '0' and known[4] and known[4] ~= ARGV[3] then return {'mismatch', known[4]} end
end
local remembers = known[1] == ARGV[1] and tonumber(known[5] or '0') <= 0 and not known[7]
-- rule: what-was-forgotten-stays-forgotten
if not remembers then redis.call('HSET', KEYS[1], 'forgot', '1') end
redis.call('HDEL', KEYS[1], 'retired', 'resized')
-- rule: closed-master-is-of-no-fleet
redis.call('HSET', KEYS[1], 'runId', ARGV[1], 'resizing', goal, 'fleetSize', '0')
return {remembers and 'closed' or 'forgot'}
