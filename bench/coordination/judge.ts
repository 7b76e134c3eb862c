/** What a list of runs shows. Pure. */
import type { Run, Sighting } from './job.ts'

/**
 * `makespanMs`: from the first start to the last end. `inversions`: starts of a job after one of
 * its key that was added later. `overlaps`: moments in which two jobs of one key ran at once.
 *
 * @param runs in the order of their starts.
 */
export function judge(runs: readonly Run[]) {
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

/** The start or the end of a run in one of the processes. */
export interface Seen extends Sighting {
  readonly process: number
}

export interface Death {
  readonly process: number
  readonly at: number
}

/**
 * Judges runs of jobs of which a process dies, with every run in it. `outOfOrder`: a job started
 * after a later one of its line, or before an earlier one. `repeated`: starts of a job that had
 * started before. `longestStandstillMs`: in which a line with jobs left ran none of them.
 */
export function judgeLines(seen: readonly Seen[], death: Death) {
  const result = { outOfOrder: 0, overlaps: 0, repeated: 0, longestStandstillMs: 0 }
  for (const line of new Set(seen.map(({ key }) => key))) {
    const events = seen.filter(({ key }) => key === line).sort((a, b) => a.at - b.at)
    const running = new Map<number, number>()
    let top = -1
    let endedAt = Infinity
    let isOver = false
    for (const { report, nr, process, at } of events) {
      if (!isOver && at >= death.at) {
        isOver = true
        for (const [ended, runner] of running) {
          if (runner !== death.process) continue
          running.delete(ended)
          endedAt = death.at
        }
      }
      if (report === 'left') {
        if (running.get(nr) === process) running.delete(nr)
        endedAt = at
        continue
      }
      if (nr === top) result.repeated++
      else if (nr !== top + 1) result.outOfOrder++
      if (running.size > 0) result.overlaps++
      else result.longestStandstillMs = Math.max(result.longestStandstillMs, at - endedAt)
      top = Math.max(top, nr)
      running.set(nr, process)
    }
  }
  return result
}
