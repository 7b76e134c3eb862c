--[[
  Shares of tenants.

  A job that was added with a share names its tenant and a weight (`redlock:share`,
  `<weight> <tenant>`). Where its queue names weights alone, each line is a tenant. Such a job is
  not put among the jobs that wait when it may start. It goes on sleeping, and is ready: it stands
  in `ready-jobs` of its tenant, in the order in which its jobs became ready. So lines of a tenant
  take turns.

  Tenants take turns by virtual time (start-time fair queueing). `shares` has what each tenant has
  used, in milliseconds of work divided by weight. A worker is given a job of the ready tenant that
  has used least. A tenant that comes back starts at the virtual time, with no credit and no debt
  that is older. A start counts QUANTUM at once, and what the job really took when it ends.

  The virtual time is a field of BullMQ's `meta` hash, and is read where no job waits. When the
  queue is idle, all of it is deleted.

  TIME_FIELD is absent without tenants. A tenant is forgotten when others have used FORGOTTEN_AFTER_MS
  more, in milliseconds of work.
]]
--- @include "ready"
--- @include "order"
local QUANTUM = 50
local FORGOTTEN_AFTER_MS = 600000
local function exactly(number) return string.format('%.17g', number) end
local function virtualTime() return tonumber(redis.call('HGET', META, TIME_FIELD)) end

-- Whether a sleeping job may start.
local function isReady(id, share)
  local _, tenant = partsOf(share)
  return redis.call('ZSCORE', readyJobsKey(tenant), id)
end

-- The sleeping job may start: a worker is given it when it is the turn of its tenant.
local function makeReady(id, share, priority, burst)
  local _, tenant = partsOf(share)
  local jobs = readyJobsKey(tenant)
  if redis.call('ZSCORE', jobs, id) then return end
  redis.call('ZADD', jobs, rankOf(priority, nextSeq()), id)
  if not redis.call('ZSCORE', SPACE .. 'ready', tenant) then
    local time = virtualTime()
    if not time then redis.call('HSET', META, TIME_FIELD, 0) end
    local used = tonumber(redis.call('ZSCORE', SPACE .. 'shares', tenant) or 0)
    -- rule: tenant-comes-back-without-credit
    redis.call('ZADD', SPACE .. 'ready', exactly(math.max(used, time or 0)), tenant)
  end
  if burst ~= '' then redis.call('HSET', BASE .. id, 'redlock:burst', burst) end
  mark()
end

-- A held job may start before its time: it sleeps as others do. Whether it was there.
local function sleepAgain(id, priority)
  local score = asleepScore(nextSeq(), priority)
  if redis.call('ZADD', DELAYED, 'XX', 'CH', score, id) == 0 then return false end
  redis.call('HSET', BASE .. id, 'delay', ASLEEP_DELAY)
  return true
end

-- A job that is ready has another place among those of its tenant.
local function rank(id, share, score)
  local _, tenant = partsOf(share)
  redis.call('ZADD', readyJobsKey(tenant), 'XX', score, id)
end

-- Work that was done for a tenant; less than 0 where a start has counted more.
-- The first write is a ZREM. Redis at maxmemory refuses a script whose first write needs memory.
local function charge(share, workedMs)
  local weight, tenant = partsOf(share)
  redis.call('ZREM', SPACE .. 'shares', '')
  local time = virtualTime()
  -- The queue was idle, or obliterated, before the work ended.
  -- rule: forgotten-tenant-stays-forgotten
  if not time then return end
  local least = math.max(0, time - FORGOTTEN_AFTER_MS)
  -- rule: work-counts-by-weight
  local used = exactly((redis.call('ZSCORE', SPACE .. 'shares', tenant) or least) + workedMs / weight)
  redis.call('ZADD', SPACE .. 'shares', used, tenant)
  redis.call('ZADD', SPACE .. 'ready', 'XX', used, tenant)
end

-- Puts the first job of the ready tenant that has used least among the active ones; nil if none is ready.
local function takeReady()
  local time = virtualTime()
  if not time then return nil end
  for _ = 1, MAX_DEAD do
    local first = redis.call('ZRANGE', SPACE .. 'ready', 0, 0, 'WITHSCORES')
    local tenant, used = first[1], tonumber(first[2])
    if not tenant then
      if redis.call('LLEN', ACTIVE) == 0 then
        redis.call('DEL', SPACE .. 'shares')
        redis.call('HDEL', META, TIME_FIELD)
      end
      return nil
    end
    local jobs = redis.call('ZRANGE', readyJobsKey(tenant), 0, 1)
    local id = jobs[1]
    if id then redis.call('ZREM', readyJobsKey(tenant), id) end
    if not jobs[2] then redis.call('ZREM', SPACE .. 'ready', tenant) end
    local score = id and redis.call('ZSCORE', DELAYED, id)
    -- rule: ready-job-sleeps
    if score and tonumber(score) >= ASLEEP then
      redis.call('ZREM', DELAYED, id)
      local weight = partsOf(redis.call('HGET', BASE .. id, 'redlock:share') or '1 ')
      local now = exactly(used + QUANTUM / weight)
      redis.call('ZADD', SPACE .. 'shares', now, tenant)
      -- rule: start-counts-for-its-tenant
      if jobs[2] then redis.call('ZADD', SPACE .. 'ready', now, tenant) end
      if used > time then
        redis.call('HSET', META, TIME_FIELD, exactly(used))
        redis.call('ZREMRANGEBYSCORE', SPACE .. 'shares', '-inf', exactly(used - FORGOTTEN_AFTER_MS))
      end
      redis.call('LPUSH', ACTIVE, id)
      return id
    end
  end
end
return {isReady = isReady, makeReady = makeReady, sleepAgain = sleepAgain, rank = rank,
  charge = charge, takeReady = takeReady, QUANTUM = QUANTUM}
