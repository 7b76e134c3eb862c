/**
 * The Lua of all verbs as one script. Each verb runs atomically on one server and is safe to run
 * twice; `src/redlock/wire/batch.ts` carries it there.
 *
 * Common to all: a reply is an array that begins with a word; the usual reply of a short form is
 * one character. `TIME` is read once a batch (it moves inside a script before Redis 7.2) and is
 * reported, so that clients notice a clock that jumps. Counters travel as strings and are written
 * with `%.0f`, because Lua's `tostring` loses the last digits of a microsecond count. `unenrolled`
 * means that this server is not, or no longer, the one that the caller's connection enrolled: it
 * restarted, lost its data, or serves another fleet.
 */
import type { Library } from '../wire/batch.ts'
import { luaKeys } from '../keyspace.ts'
import { acquireProcedure } from './acquire.ts'
import { confirmProcedure } from './confirm.ts'
import { extendProcedure } from './extend.ts'
import { healProcedure } from './heal.ts'
import { inspectProcedure } from './inspect.ts'
import { releaseProcedure } from './release.ts'
import { withdrawProcedure } from './withdraw.ts'

/**
 * `flagged` says that there may be waiters, reservations or tombstones. Without them no verb looks
 * for them, which saves a quarter of a lease's cost. What writes one says how long it lives. A verb
 * that needs the time or the enrolment calls `readRecord` first; no verb changes what it reads.
 */
const PRELUDE = `
local leasePrefix, fencePrefix = namespace .. ':lease:', namespace .. ':fence:'
local flagKey = namespace .. ':flag'
local flagged = call('EXISTS', flagKey) == 1
local nowMs, enrolled, quarantineMs, grants, earliestUs, latestUs
local function readRecord()
  local time = call('TIME')
  nowMs = time[1] * 1000 + math.floor(time[2] / 1000)
  local record = call('HMGET', namespace .. ':master', 'runId', 'maxLeaseMs', 'votesInMs', 'fleetSize')
  -- rule: one-server-of-one-fleet
  enrolled = record[1] == runId and record[2] == maxLeaseMs and record[4] == fleetSize
  quarantineMs = tonumber(record[3] or '0')
  grants = enrolled and quarantineMs <= 0
  earliestUs = (nowMs + (maxClockSkewMs or 0) - (fenceTtlMs or 0)) * 1000
  latestUs = (nowMs + (maxClockSkewMs or 0)) * 1000
end
`

const LONG_PRELUDE = `
if not nowMs then readRecord() end
${luaKeys}
local function flag(forMs)
  flagged = true
  if forMs > redis.call('PTTL', flagKey) then redis.call('SET', flagKey, '1', 'PX', forMs) end
end
`

/** Loaded into every enrolled master, in one script. */
export const leaseLibrary: Library = {
  constants: ['namespace', 'maxLeaseMs', 'fenceTtlMs', 'maxClockSkewMs', 'fleetSize'],
  prelude: PRELUDE,
  longPrelude: LONG_PRELUDE,
  procedures: [
    acquireProcedure,
    confirmProcedure,
    extendProcedure,
    healProcedure,
    releaseProcedure,
    withdrawProcedure,
    inspectProcedure,
  ],
}
