/** What a list of runs says. Pure. */
import type { Run } from './job.ts'

export interface Judgement {
  /** From the first start to the last end. */
  readonly makespanMs: number
  /** Starts of a job before one of the same key that was added earlier. */
  readonly inversions: number
  /** Moments in which two jobs of one key ran at once. */
  readonly overlaps: number
  /** Between the end of a job and the start of the next one of its key, sorted. */
  readonly gapsMs: readonly number[]
}

/** `runs` in the order of their starts. */
export function judge(runs: readonly Run[]): Judgement {
  const last = new Map<string, Run>()
  const gapsMs: number[] = []
  let inversions = 0
  let overlaps = 0
  for (const run of runs) {
    const before = last.get(run.key)
    if (before !== undefined) {
      if (run.nr < before.nr) inversions++
      if (run.startedAt < before.endedAt) overlaps++
      gapsMs.push(run.startedAt - before.endedAt)
    }
    last.set(run.key, run)
  }
  const first = Math.min(...runs.map(({ startedAt }) => startedAt))
  const end = Math.max(...runs.map(({ endedAt }) => endedAt))
  return { makespanMs: end - first, inversions, overlaps, gapsMs: sorted(gapsMs) }
}

export function sorted(values: readonly number[]): readonly number[] {
  return [...values].sort((a, b) => a - b)
}

/** Of sorted values; NaN when there are none. */
export function percentile(values: readonly number[], part: number): number {
  return values[Math.min(values.length - 1, Math.floor(part * values.length))] ?? NaN
}

export function median(values: readonly number[]): number {
  return percentile(sorted(values), 0.5)
}
