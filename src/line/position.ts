/** A job's place in its line, how many are ahead of it, and how long it will wait. */
import { lineScript } from './line-library.ts'
import type { LineRunner } from './line-runner.ts'
import { membersOf, type Member } from './members.ts'

/** The place of a job in its line, and when it may start. */
export interface LinePosition {
  /** Of several, the one in whose line most jobs are ahead of it. */
  readonly resource: string
  /** Jobs that are ahead of it, running ones included. */
  readonly ahead: number
  /** Jobs in the line. */
  readonly length: number
  /** The jobs before it, from the head of the line on: 100 at most. */
  readonly before: readonly Pick<Member, 'queue' | 'jobId' | 'state'>[]
  /**
   * From the times that the last completed jobs of the queue took: those of its resources, where
   * there are five or more, else all. Undefined where the queue keeps no completed jobs, and while
   * the resource is paused without an end.
   */
  readonly estimate?: {
    readonly startsInMs: number
    /** One standard deviation. */
    readonly spreadMs: number
  }
}

/** Completed jobs that are looked at. */
const RECENT = 200
const MIN_OWN = 5
const MAX_BEFORE = 100

/**
 * KEYS  1 job
 * ARGV  1 space · 2 slots · 3 base · 4 job id · 5 the most completed jobs
 * Returns  for each line: resource, places before the job, places, slots, ms until it opens (-1: it
 * is not known), ms between two starts · ms that completed jobs of these lines took · of all jobs
 */
const positionBody = `
local job = redis.call('HMGET', KEYS[1], 'redlock:lines', 'timestamp', 'finishedOn', 'redlock:rate', 'redlock:slots')
if not job[1] or job[3] then return {{}, {}, {}} end
local place, lines, own, all = placeOf(ARGV[3], ARGV[4], job[2]), {}, {}, {}
for _, resource in ipairs(cjson.decode(job[1])) do
  local line = lineKey(resource)
  local isMarked = redis.call('ZRANGE', line, 0, 0)[1] == MARK
  local limits = isMarked and limitsOf(resource) or {slots = SLOTS}
  local slots = limits.areSet and limits.slots or tonumber(job[5] or nil) or SLOTS
  local rank, mark, opensIn = redis.call('ZRANK', line, place), isMarked and 1 or 0, 0
  if limits.closedUntil then opensIn = limits.closedUntil < math.huge and limits.closedUntil - nowMs() or -1 end
  local interval = job[4] and cjson.decode(job[4]) or {1, 0}
  if limits.rate then interval = {limits.rate.limit, limits.rate.perMs} end
  if rank then
    lines[#lines + 1] = {resource, rank - mark, redis.call('ZCARD', line) - mark,
      math.max(1, limits.closedUntil and SLOTS or slots), opensIn .. '', interval[2] / interval[1] .. ''}
  end
end
for _, id in ipairs(redis.call('ZREVRANGE', ARGV[3] .. 'completed', 0, ARGV[5] - 1)) do
  local done = redis.call('HMGET', ARGV[3] .. id, 'processedOn', 'finishedOn', 'redlock:lines')
  if done[1] and done[2] then
    all[#all + 1] = done[2] - done[1]
    if done[3] == job[1] then own[#own + 1] = done[2] - done[1] end
  end
end
return {lines, own, all}
`
const positionScript = lineScript('position', positionBody)

type LineFacts = readonly [
  resource: string,
  ahead: number,
  length: number,
  slots: number,
  /** JSON numbers: ms until the line opens, -1 for never; ms between two starts. */
  opensInMs: string,
  intervalMs: string,
]

/** Undefined for a job that has ended, does not exist, or has no place in a line. */
export async function positionOf(
  runner: LineRunner,
  jobId: string,
): Promise<LinePosition | undefined> {
  const key = runner.toKey(jobId)
  const args = [runner.toKey(''), jobId, RECENT]
  const reply = await runner.runOn(positionScript, key, args)
  const [lines, own, all] = reply as readonly [LineFacts[], number[], number[]]
  const [line] = [...lines].sort((a, b) => b[1] - a[1])
  if (line === undefined) return undefined
  const [resource, ahead, length, slots, opensInMs, intervalMs] = line
  const { members } = await membersOf(resource, runner, Math.min(ahead, MAX_BEFORE))
  const before = members.map(({ queue, jobId: id, state }) => ({ queue, jobId: id, state }))
  const place = { resource, ahead, length, before }
  const holds = own.length >= MIN_OWN ? own : all
  if (holds.length === 0 || Number(opensInMs) < 0) return place
  const rest = { slots, opensInMs: Number(opensInMs), intervalMs: Number(intervalMs) }
  return { ...place, estimate: estimateOf(ahead, holds, rest) }
}

/** @internal Of jobs that run, half of their time is over on average. */
export function estimateOf(
  ahead: number,
  holdsMs: readonly number[],
  {
    slots,
    opensInMs,
    intervalMs,
  }: { readonly slots: number; readonly opensInMs: number; readonly intervalMs: number },
): { readonly startsInMs: number; readonly spreadMs: number } {
  const mean = holdsMs.reduce((sum, ms) => sum + ms, 0) / holdsMs.length
  const variance = holdsMs.reduce((sum, ms) => sum + (ms - mean) ** 2, 0) / holdsMs.length
  const running = Math.min(ahead, slots)
  const workMs = (mean * (ahead - running / 2)) / slots
  const startsInMs = opensInMs + Math.max(workMs, ahead * intervalMs)
  const spreadMs = Math.sqrt(variance * ahead) / slots
  return { startsInMs: Math.round(startsInMs), spreadMs: Math.round(spreadMs) }
}
