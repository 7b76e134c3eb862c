/** What a list of runs shows. Pure. */
import type { Run, Sighting } from './job.ts'

export interface Judgement {
  /** From the first start to the last end. */
  readonly makespanMs: number
  /** Starts of a job after one of the same key that was added later. */
  readonly inversions: number
  /** Moments in which two jobs of one key ran at once. */
  readonly overlaps: number
}

/** `runs` in the order of their starts. */
export function judge(runs: readonly Run[]): Judgement {
  const last = new Map<string, Run>()
  let inversions = 0
  let overlaps = 0
  let end = -Infinity
  for (const run of runs) {
    end = Math.max(end, run.endedAt)
    const before = last.get(run.key)
    if (before !== undefined) {
      if (run.nr < before.nr) inversions++
      if (run.startedAt < before.endedAt) overlaps++
    }
    last.set(run.key, run)
  }
  return { makespanMs: end - (runs[0]?.startedAt ?? 0), inversions, overlaps }
}

/** A start, an end, or the death of a whole process with every run in it. */
export type Event =
  | (Sighting & { readonly process: number })
  | { readonly report: 'died'; readonly process: number; readonly at: number }

export interface LineHistory {
  /** A job started after a later one of its line, or before an earlier one. */
  readonly outOfOrder: number
  readonly overlaps: number
  /** Starts of a job that had started before: its process died. */
  readonly repeated: number
  /** The longest time in which a line with jobs left ran none of them. */
  readonly longestStandstillMs: number
}

interface Line {
  /** The highest number that started. */
  top: number
  /** The process of each run under way, by the job's number. */
  readonly running: Map<number, number>
  /** When the last run ended; undefined before the first one. */
  endedAt: number | undefined
}

/** Judges runs of jobs whose processes may die. `events` in any order. */
export function judgeLines(events: readonly Event[]): LineHistory {
  const lines = new Map<string, Line>()
  let outOfOrder = 0
  let overlaps = 0
  let repeated = 0
  let longestStandstillMs = 0
  for (const event of [...events].sort((a, b) => a.at - b.at)) {
    if (event.report === 'died') {
      for (const line of lines.values()) endRunsOf(line, event.process, event.at)
      continue
    }
    const line = lines.get(event.key) ?? { top: -1, running: new Map(), endedAt: undefined }
    lines.set(event.key, line)
    if (event.report === 'left') {
      if (line.running.get(event.nr) === event.process) line.running.delete(event.nr)
      line.endedAt = event.at
      continue
    }
    if (event.nr === line.top) repeated++
    else if (event.nr !== line.top + 1) outOfOrder++
    if (line.running.size > 0) overlaps++
    else if (line.endedAt !== undefined) {
      longestStandstillMs = Math.max(longestStandstillMs, event.at - line.endedAt)
    }
    line.top = Math.max(line.top, event.nr)
    line.running.set(event.nr, event.process)
  }
  return { outOfOrder, overlaps, repeated, longestStandstillMs }
}

function endRunsOf(line: Line, process: number, at: number): void {
  for (const [nr, runner] of line.running) {
    if (runner !== process) continue
    line.running.delete(nr)
    line.endedAt = at
  }
}
