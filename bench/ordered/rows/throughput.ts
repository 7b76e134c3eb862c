/** Jobs per second where each key has an order. */
import { inTurns, type Harness, type Outcome, type Row } from '../../coordination/harness.ts'
import type { Contender } from '../../coordination/job.ts'
import { peerOf } from '../../coordination/peers.ts'
import {
  figure,
  none,
  number,
  shown,
  tableOf,
  type Figure,
  type Measured,
  type Table,
} from '../../report.ts'
import { type Effort, type Rounds, sum, takeTurns, type Value } from '../../rounds.ts'
import { contenders, titleOf } from '../contenders.ts'

const CONCURRENCY = 25
const SLOTS = 2 * CONCURRENCY
const WORK_MS = [0, 1, 10, 100]
const KEYS = [1, 10, 1_000]
/** By keys, for each duration of work. About a second at best. */
const JOBS: Readonly<Record<number, readonly number[]>> = {
  1: [200, 150, 60, 10],
  10: [2_000, 2_000, 800, 100],
  1_000: [4_000, 4_000, 4_000, 1_000],
}
const SMOKE_JOBS = 20

interface Cell {
  readonly workMs: number
  readonly keys: number
  readonly rounds: Rounds<Contender, Outcome>
}

export const throughput: Row = {
  name: 'throughput',
  load: `Jobs per second, 2 processes × ${CONCURRENCY} slots, all jobs added before; jobs that are done are removed.`,
  async run(harness, effort): Promise<Measured> {
    for (const name of effort.of(contenders, [])) {
      await harness.run(name, { jobs: inTurns(100, 5, 0), concurrency: CONCURRENCY, kept: false })
    }
    const cells: Cell[] = []
    for (const workMs of effort.some(WORK_MS)) {
      for (const keys of effort.some(KEYS)) {
        console.error(`throughput: ${workMs} ms of work, ${keys} keys`)
        cells.push({ workMs, keys, rounds: await measure(harness, effort, workMs, keys) })
      }
    }
    const total = (name: Contender, of: Value<Outcome>): number =>
      sum(cells.map(({ rounds }) => rounds.sum(name, of)))
    const disorder = tableOf('All of these runs', contenders, [
      ['', titleOf],
      ['jobs', (name) => number(total(name, ({ runs }) => runs.length))],
      ['out of order', (name) => number(total(name, 'inversions'))],
      ['two of a key at once', (name) => number(total(name, 'overlaps'))],
    ])
    const wrong = total('strict', 'inversions') + total('strict', 'overlaps')
    const speeds = effort.some(WORK_MS).map((workMs) => {
      const own = cells.filter((cell) => cell.workMs === workMs)
      return speedsOf(workMs, own)
    })
    return {
      tables: [...speeds, disorder],
      figures: [...cells.map(figureOf), none('Jobs of ours out of order or at once', wrong)],
    }
  },
}

function measure(
  harness: Harness,
  effort: Effort,
  workMs: number,
  keys: number,
): Promise<Cell['rounds']> {
  const whole = JOBS[keys]?.[WORK_MS.indexOf(workMs)] ?? keys
  const each = Math.ceil(effort.of(whole, SMOKE_JOBS) / keys)
  return takeTurns(contenders, { rounds: effort.rounds }, (name) =>
    harness.run(name, {
      ...{ jobs: inTurns(keys, each, workMs), concurrency: CONCURRENCY, kept: false },
    }),
  )
}

function speedsOf(workMs: number, cells: readonly Cell[]): Table {
  const columns = cells.map(({ keys, rounds }) => {
    const head = keys === 1 ? '1 key' : `${number(keys)} keys`
    return [head, (name: Contender) => shown(rounds.spread(name, 'jobsPerSecond'))] as const
  })
  const table = tableOf(`${workMs} ms of work`, contenders, [['', titleOf], ...columns])
  if (workMs === 0) return table
  const most = cells.map(({ keys }) => number((Math.min(keys, SLOTS) / workMs) * 1_000))
  return { ...table, rows: [...table.rows, ['most that order and slots allow', ...most]] }
}

/** Beside the best of the peers. One key is never beside BullMQ, which runs its jobs at once. */
function figureOf({ workMs, keys, rounds }: Cell): Figure {
  const peer = rounds.best(contenders.filter(peerOf), 'jobsPerSecond', 'more')
  const name = `${number(keys)} ${keys === 1 ? 'key' : 'keys'}, ${workMs} ms`
  const ofPlain = shown(rounds.ratio('strict', 'plain', 'jobsPerSecond'))
  const beside = titleOf(peer) + (keys === 1 ? '' : `; ${ofPlain} of BullMQ without order`)
  return figure(name, rounds.ratio('strict', peer, 'jobsPerSecond'), 'x', { beside })
}
