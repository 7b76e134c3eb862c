--[[
  KEYS  1 master
  ARGV  1 runId · 2 maxLeaseMs · 3 quarantineMs · 4 durable, 1 or 0
        5 fleetSize, of how many masters it is one
        6 1 where the caller may be the first, 0 where other masters refuse it
        7 the client's id, by which it knows whether it was the first
        8 a fresh name, to which a quarantine that begins now adds the time · 9 fenceTtlMs
  Returns  enrolled, ms left of the quarantine, its name or '', id of the first client, TIME in ms
           | mismatch, name of a setting, what it is for the fleet | foreign | resizing | retired
  Keeps: a server process that is new to the fleet grants nothing until every lease that an earlier
  memory may have held is over. Only memory that was durable before and after needs no wait.
  Clients that count another number of masters are refused, because two quorums of them need not
  meet. A client that other masters refuse is not the first to write the record. Counters live
  equally long for all clients. A master that `resize` has closed is no client's.
]]
local known = redis.call('HMGET', KEYS[1], 'runId', 'maxLeaseMs', 'fleetSize', 'fenceTtlMs',
  'durable', 'founder', 'quarantine', 'votesInMs', 'resizing', 'retired')
-- rule: closed-master-enrols-no-client
if known[9] or known[10] then return {known[9] and 'resizing' or 'retired'} end
if known[2] and known[2] ~= ARGV[2] then return {'mismatch', 'maxLeaseMs', known[2]} end
-- rule: fleets-of-one-size
if known[3] and known[3] ~= ARGV[5] then return {'mismatch', 'fleetSize', known[3]} end
if known[4] and known[4] ~= ARGV[9] then return {'mismatch', 'fenceTtlMs', known[4]} end
-- rule: refused-client-founds-no-fleet
if not known[1] and ARGV[6] == '0' then return {'foreign'} end
local founder = known[1] and (known[6] or '') or ARGV[7]
local quarantine, votesInMs = known[7] or '', known[8] or '0'
local time = redis.call('TIME')
-- rule: new-run-id-is-quarantined
if known[1] ~= ARGV[1] then
  local survives = known[1] and known[5] == '1' and ARGV[4] == '1'
  -- Clients may have counted one that this call began before, if it runs twice.
  -- rule: each-loss-of-memory-begins-its-own-quarantine
  if not survives then quarantine, votesInMs = ARGV[8] .. '@' .. time[1] .. time[2], ARGV[3] end
end
-- In two writes, as a grant: a server that loses such pairs when it loads its file loses the record too.
-- rule: record-survives-as-leases-do
redis.call('HSET', KEYS[1], 'durable', ARGV[4])
redis.call('HSET', KEYS[1], 'runId', ARGV[1], 'maxLeaseMs', ARGV[2], 'fleetSize', ARGV[5],
  'fenceTtlMs', ARGV[9], 'durable', ARGV[4], 'founder', founder, 'quarantine', quarantine,
  'votesInMs', votesInMs)
local nowMs = time[1] * 1000 + math.floor(time[2] / 1000)
return {'enrolled', tonumber(votesInMs), quarantine, founder, nowMs}
