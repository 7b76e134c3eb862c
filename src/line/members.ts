/** The jobs that have places in the line of a resource. */
import { limitsFrom, type ResourceLimits } from './limits.ts'
import { lineScript } from './line-library.ts'
import type { LineRunner } from './line-runner.ts'
import { shareFrom, type Share } from './shares.ts'

/** Jobs of a line that are looked at. */
const MAX_MEMBERS = 100
const FIELDS = 5

/**
 * KEYS  1 line
 * ARGV  1 space · 2 slots · 3 the most places · 4 resource
 * Returns  places in the line, its limits (JSON), then base, id, timestamp, share, state of each
 * living one: asleep, ready, held, active, delayed, due, prioritized, waiting, failed
 */
const placesBody = `
local line, limit = KEYS[1], tonumber(ARGV[3])
local places = redis.call('ZRANGE', line, 0, limit)
local isMarked = places[1] == MARK
if isMarked then table.remove(places, 1) else places[limit + 1] = nil end
local found = {redis.call('ZCARD', line) - (isMarked and 1 or 0), isMarked and redis.call('HGET', SPACE .. 'limits', ARGV[4]) or '{}'}
for _, place in ipairs(places) do
  local job = jobAt(place)
  if job then
    local state = 'waiting'
    if job.finished then state = 'failed'
    elseif job.held and redis.call('ZSCORE', job.base .. 'delayed', job.id) then state = 'held'
    elseif job.asleep and not job.held then
      local _, tenant = partsOf(job.share or '')
      local isReady = tenant and redis.call('ZSCORE', readyJobsKey(job.base, tenant), job.id)
      state = isReady and 'ready' or 'asleep'
    elseif redis.call('EXISTS', job.jobKey .. ':lock') == 1 then state = 'active'
    elseif redis.call('ZSCORE', job.base .. 'prioritized', job.id) then state = 'prioritized'
    else
      local score = redis.call('ZSCORE', job.base .. 'delayed', job.id)
      if score then state = score / 4096 > nowMs() and 'delayed' or 'due' end
    end
    local timestamp = string.match(place, '(%S+)$')
    for _, field in ipairs({job.base, job.id, timestamp, job.share or '', state}) do found[#found + 1] = field end
  end
end
return found
`
const placesScript = lineScript('places', placesBody)

/** A job that has a place in a line. */
export interface Member {
  readonly queue: string
  readonly jobId: string
  readonly addedAtMs: number
  readonly state: string
  /** Its state is `delayed`, and its delay is over. */
  readonly isDue: boolean
  readonly share: Share | undefined
}

interface Members {
  readonly length: number
  readonly limits: ResourceLimits
  readonly members: readonly Member[]
}

/** How many places a line has, its limits, and the jobs at its head. */
export async function membersOf(
  resource: string,
  runner: LineRunner,
  limit: number = MAX_MEMBERS,
): Promise<Members> {
  const reply = await runner.run(placesScript, `line:${resource}`, [limit, resource])
  const [length, limits, ...fields] = reply as readonly [number, string, ...string[]]
  const members: Member[] = []
  for (let index = 0; index + FIELDS <= fields.length; index += FIELDS) {
    const [base = '', jobId = '', timestamp, share = '', state = ''] = fields.slice(
      index,
      index + FIELDS,
    )
    const queue = base.slice(base.lastIndexOf(':', base.length - 2) + 1, -1)
    const isDue = state === 'due'
    const own = { queue, jobId, state: isDue ? 'delayed' : state, isDue }
    members.push({ ...own, addedAtMs: Number(timestamp), share: shareFrom(share) })
  }
  return { length, limits: limitsFrom(limits), members }
}
