/** `kill -9` of a worker process while it runs jobs, and what a list of runs shows. */
import { setTimeout as delay } from 'node:timers/promises'
import { monotonicMs } from '../../test/faults/monotonic.ts'
import type { KeyedJob, Orders, Run, Sighting } from './job.ts'
import { startWorkers } from './workers.ts'

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

/** A job that is run twice has been by then. */
const AFTERMATH_MS = 500
const POLL_MS = 5

interface Kill {
  readonly orders: Orders
  /** Those that have to end; more may have been added. */
  readonly expected: readonly KeyedJob[]
  /** So many jobs have ended when the process dies, */
  readonly ended: number
  /** and so many run in it, */
  readonly running: number
  /** for so long at least. */
  readonly afterMs: number
  /** For what comes before the kill, and again for what comes after it. */
  readonly limitMs: number
  add(): Promise<void>
}

export async function killOne(kill: Kill) {
  const { orders, expected, limitMs } = kill
  await using workers = await startWorkers(2, orders.contender === 'bunqueue' ? 'bun' : 'node')
  const seen: Seen[] = []
  workers.listen((one) => seen.push(one))
  await kill.add()
  await workers.work({ ...orders, announce: true, quiet: true })
  const ended = (): readonly string[] =>
    seen.filter(({ report }) => report === 'left').map(({ key, nr }) => `${key} ${nr}`)
  await within(limitMs, () => ended().length >= kill.ended)
  await within(limitMs, () => mostRunning(seen).length >= kill.running)
  await delay(kill.afterMs)
  /** The runs that die. */
  const interrupted = mostRunning(seen)
  const death: Death = { process: interrupted[0]?.process ?? 0, at: monotonicMs() }
  await workers.all[death.process]?.kill()
  await within(limitMs, () => new Set(ended()).size >= expected.length)
  await delay(AFTERMATH_MS)
  return { seen, death, interrupted }
}

/** The runs that go on in the process that has most of them. */
function mostRunning(seen: readonly Seen[]): readonly Seen[] {
  const running = seen.filter(({ report, key, nr }, index) => {
    const isSame = (other: Seen): boolean => other.key === key && other.nr === nr
    return report === 'entered' && !seen.slice(index + 1).some(isSame)
  })
  const of = [0, 1].map((nr) => running.filter(({ process }) => process === nr))
  return of.toSorted((a, b) => b.length - a.length)[0] ?? []
}

async function within(limitMs: number, isDone: () => boolean): Promise<void> {
  const until = performance.now() + limitMs
  while (!isDone() && performance.now() < until) await delay(POLL_MS)
}
