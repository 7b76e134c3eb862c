/** A job's place in its line, how many are ahead of it, and how long it will wait. */
import { jobIdOption } from '../options.ts'
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
  readonly before: readonly Pick<Member, 'jobId' | 'state'>[]
  /**
   * From the times that the last completed jobs of the queue took: those of its resources, where
   * there are five or more, else all. Undefined where the queue keeps no completed jobs, for a job
   * that runs, for the first job of an open line, and while the queue or the line stands. A queue
   * stands that is paused or has no worker. A line stands whose first job failed, is delayed, runs
   * for much longer than others did, or has a worker that is stopped or dead. So does one whose
   * resource is paused without an end. Leases that other clients hold are not known here.
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
/** A job that runs for so many times the longest of the others tells nothing of its end. */
const LONG = 2
const MIN_LONG_MS = 10_000

/** `opensInMs`: until its limits let jobs start. `intervalMs`: between two starts. */
type LineFacts = Readonly<Record<'ahead' | 'slots' | 'opensInMs' | 'intervalMs', number>>

/**
 * Undefined for a job that has ended, does not exist, or has no place in a line.
 * @param queueStands whether no job of the queue starts, or none gets a lease.
 */
export async function positionOf(
  runner: LineRunner,
  jobId: string,
  queueStands: () => Promise<boolean>,
): Promise<LinePosition | undefined> {
  jobIdOption(jobId)
  const reply = await runner.run('line/lua/position', { id: jobId, most: RECENT })
  if (!Array.isArray(reply)) return undefined
  const [now, restMs, ...told] = reply as [number, number, string, string, number[], number[]]
  const [lines, rate, own, all] = told
  const found = await Promise.all(
    (JSON.parse(lines) as string[]).map(async (resource) => {
      const line = await membersOf(resource, runner, MAX_BEFORE, jobId)
      const job = line.members.find((member) => member.jobId === jobId)
      return job === undefined ? [] : [{ resource, line, job }]
    }),
  )
  const [worst] = found.flat().sort((a, b) => b.job.ahead - a.job.ahead)
  if (worst === undefined) return undefined
  const { resource, job } = worst
  const { length, slots, limits, members } = worst.line
  const { ahead } = job
  const before = members.slice(0, Math.min(ahead, MAX_BEFORE))
  const names = before.map(({ jobId: id, state }) => ({ jobId: id, state }))
  const place = { resource, ahead, length, before: names }
  const holds = own.length >= MIN_OWN ? own : all
  const { paused, asleepUntil = now } = limits
  const pausedUntil = paused === undefined ? now : (paused.until ?? Infinity)
  const opensInMs = Math.max(restMs, Number(asleepUntil) - now, Number(pausedUntil) - now)
  // It runs, or it is the first one and waits for a worker or the lease, which no line knows.
  const isNext = job.activeSince !== undefined || (ahead === 0 && opensInMs === 0)
  const stands = job.delayedUntil !== undefined || standsBehind(before[0] ?? job, holds, now)
  // rule: no-estimate-while-the-line-stands
  if (stands || isNext || holds.length === 0 || opensInMs === Infinity) return place
  // rule: no-estimate-while-the-queue-stands
  if (await queueStands()) return place
  const [limit = 1, perMs = 0] = rate === '' ? [] : (JSON.parse(rate) as number[])
  const each = limits.rate ?? { limit, perMs }
  const intervalMs = Math.min(each.perMs / each.limit, Number.MAX_SAFE_INTEGER)
  return { ...place, estimate: estimateOf({ ahead, slots, opensInMs, intervalMs }, holds) }
}

/** Whether it is unknown how long the first job of a line keeps it. */
function standsBehind(first: Member, holdsMs: readonly number[], now: number): boolean {
  const { state, delayedUntil, activeSince, lockLapsed } = first
  if (state === 'failed' || delayedUntil !== undefined || lockLapsed) return true
  const longestMs = Math.max(MIN_LONG_MS, ...holdsMs)
  return now - (activeSince?.getTime() ?? Infinity) > LONG * longestMs
}

/** Of jobs that run, half of their time is over on average. */
function estimateOf(
  { ahead, slots, opensInMs, intervalMs }: LineFacts,
  holdsMs: readonly number[],
): NonNullable<LinePosition['estimate']> {
  const mean = holdsMs.reduce((sum, ms) => sum + ms, 0) / holdsMs.length
  const variance = holdsMs.reduce((sum, ms) => sum + (ms - mean) ** 2, 0) / holdsMs.length
  const running = Math.min(ahead, slots)
  const workMs = (mean * (ahead - running / 2)) / slots
  const startsInMs = opensInMs + Math.max(workMs, ahead * intervalMs)
  const spreadMs = Math.sqrt(variance * ahead) / slots
  return { startsInMs: Math.round(startsInMs), spreadMs: Math.round(spreadMs) }
}
