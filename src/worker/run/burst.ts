/**
 * How a line goes on behind a job. A line may use a burst of work in front of jobs of other lines.
 * When the burst is spent, its next job goes behind the jobs that wait, and what was used too much
 * counts against the next burst. A line that pauses starts anew. With tenants, all work counts for
 * the tenant instead.
 */
import { performance } from 'node:perf_hooks'
import { systemClock } from '../../clock.ts'
import { shareFrom } from '../../line/shares.ts'
import type { Move } from '../../line/visit.ts'
import type { Visit } from './visit.ts'

/** An empty job counts as this much work: else empty jobs would never end a burst. */
const MIN_JOB_MS = 1
/** Of jobs that are shorter than this, a process runs no more than it has time for. */
const SHORT_JOB_MS = 5
/** With longer jobs, it has no time left when its event loop waits less than half of the time. */
const BUSY = 0.5

/** @param isOneOfMany other jobs run here too. */
export function moveBehind(
  { job: { timestamp }, lines, usedMs, turn: { share, chargedMs } }: Visit,
  workedMs: number,
  usualBurstMs: number,
  isOneOfMany: boolean,
): Move {
  const weight = share === '' ? 1 : (shareFrom(share)?.weight ?? 1)
  const burstMs = usualBurstMs * weight
  const workMs = Math.max(MIN_JOB_MS, workedMs)
  const allMs = usedMs + workMs
  const isSpent = allMs >= burstMs
  const carriedMs = share === '' ? Math.min(allMs - burstMs, burstMs) : 0
  return {
    timestamp,
    lines,
    next: isSpent ? 'back' : 'front',
    usedMs: isSpent ? carriedMs : allMs,
    share,
    chargeMs: workMs - chargedMs,
    // A process with time left runs a line as fast as any other, and a change of process costs.
    offers: isSpent && isOneOfMany && (workedMs < SHORT_JOB_MS || loopLoad() >= BUSY),
  }
}

type Utilization = ReturnType<typeof performance.eventLoopUtilization>

const MIN_WINDOW_MS = 25
/** What an older reading says is about another time. */
const MAX_WINDOW_MS = 1_000
let last: { readonly at: number; readonly read?: Utilization; readonly load: number } = {
  at: -Infinity,
  load: 0,
}

/**
 * The part of its time in which the event loop of this process does not wait, since the reading
 * before; 0 where that is long ago.
 */
function loopLoad(): number {
  const at = systemClock.now()
  const windowMs = at - last.at
  if (windowMs < MIN_WINDOW_MS) return last.load
  const read = performance.eventLoopUtilization()
  const isRecent = windowMs <= MAX_WINDOW_MS && last.read !== undefined
  const load = isRecent ? performance.eventLoopUtilization(read, last.read).utilization : 0
  last = { at, read, load }
  return load
}
