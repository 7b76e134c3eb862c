--[[
  The names of a queue's keys. All of ours begin with SPACE, so they are on the queue's slot of a
  cluster. BullMQ takes an id with two colons (`redlock:line:a`), and none with more.

  A job that waits for its turn sleeps in BullMQ's `delayed` set, in a band of scores that no delay
  of a user reaches: from the year 2109 on. Its hash says `delay` = ASLEEP_DELAY, 2^42 ms.

  ASLEEP, 2^54, is the first score of the band: scores are exact in steps of four. Jobs with a
  priority begin at ASLEEP_PRIORITIZED.

  ARGV  base: what BullMQ's keys of the queue begin with · slots: where no others are set
]]
local ASLEEP_DELAY = '4398046511104'
local ASLEEP = 18014398509481984
local ASLEEP_PRIORITIZED = 27021597764222976
local BASE, SLOTS = ARGV.base, ARGV.slots
-- rule: no-job-has-the-name-of-our-keys
local SPACE = BASE .. 'redlock:::'
local WAIT, ACTIVE, DELAYED, PRIORITIZED = BASE .. 'wait', BASE .. 'active', BASE .. 'delayed', BASE .. 'prioritized'
local META, MARKER = BASE .. 'meta', BASE .. 'marker'
local EVENTS, LIMITER = BASE .. 'events', BASE .. 'limiter'
-- Of `meta`: see `shares`.
local TIME_FIELD = 'redlock:time'
local MAX_DEAD = 5000
-- Workers that have looked for a job in vain, by how many jobs they run; and how long they are known.
local IDLE, IDLE_MS = SPACE .. 'idle', 10000

local function lineKey(resource) return SPACE .. 'line:' .. resource end
-- The name of one instance of a job: ids are used again. BullMQ gives workers the time of creation by
-- `parseInt`, whatever a user has passed.
local function placeOf(id, timestamp)
  -- rule: place-of-one-instance
  return id .. ' ' .. (string.match(timestamp or '', '^%s*%+?(%-?%d+)') or 'NaN')
end
-- The clock of the queue's Redis: others act on times.
local readAtMs
local function nowMs()
  if not readAtMs then
    local now = redis.call('TIME')
    readAtMs = now[1] * 1000 + now[2] / 1000
  end
  return readAtMs
end
-- Whether a worker that looks is given a job, if the queue gives out jobs.
local function isAnyReady()
  local waits = redis.call('LLEN', WAIT) > 0 or redis.call('ZCARD', PRIORITIZED) > 0
  -- rule: ready-job-is-looked-for
  return waits or redis.call('EXISTS', SPACE .. 'ready') == 1
end
-- The results of a job's steps: see `worker/lua/claim-result.lua`.
local function dropSteps(id)
  redis.call('ZREM', SPACE .. 'stores', SPACE .. 'steps:' .. id)
  redis.call('DEL', SPACE .. 'steps:' .. id)
end
-- An idle worker has to look.
local function mark() redis.call('ZADD', MARKER, '0', '0') end
-- Redis makes a text of a number for every command. This is how most places are counted.
local function indexText(n) return n == 0 and '0' or n == 1 and '1' or n end
-- The resources of a job, as its hash has them. Most jobs have one, with a plain name.
local function resourcesOf(lines)
  local only = string.match(lines, '^%["([^"\\]+)"%]$')
  return only and {only} or cjson.decode(lines)
end
--- @layer
