/** Jobs per second where each key has an order. */
import { besideBestPeer, oursIn, oursMustNot } from '../../beside.ts'
import { inTurns, type Outcome } from '../../coordination/harness.ts'
import { number, shown } from '../../format.ts'
import type { Figure, Measured, Table } from '../../measured.ts'
import { takeTurns, type Rounds } from '../../rounds.ts'
import { spread, sum } from '../../statistics.ts'
import type { Ordered } from '../contenders.ts'
import { PROCESSES, type OrderedHarness, type Row } from '../harness.ts'

const CONCURRENCY = 25
const SLOTS = PROCESSES * CONCURRENCY
const WORK_MS = [0, 1, 10, 100] as const
const KEYS = [1, 10, 1_000] as const
/** About a second at best. */
const JOBS: Readonly<Record<number, readonly number[]>> = {
  1: [200, 150, 60, 10],
  10: [2_000, 2_000, 800, 100],
  1_000: [4_000, 4_000, 4_000, 1_000],
}
const SMOKE_JOBS = 20
const WARM_UP = { keys: 100, each: 5 }

interface Cell {
  readonly workMs: number
  readonly keys: number
  readonly rounds: Rounds<Ordered, Outcome>
}

const perSecond = ({ makespanMs, runs }: Outcome): number => (runs.length / makespanMs) * 1_000

export const throughput: Row = {
  name: 'throughput',
  load: `Jobs per second, ${PROCESSES} processes × ${CONCURRENCY} slots, all jobs added before; jobs that are done are removed.`,
  async run(harness) {
    const { effort, runs, contenders } = harness
    for (const { name } of contenders) {
      const jobs = inTurns(WARM_UP.keys, WARM_UP.each, 0)
      if (!effort.smoke) await runs.run(name, { jobs, concurrency: CONCURRENCY, kept: false })
    }
    const cells: Cell[] = []
    for (const workMs of effort.some(WORK_MS)) {
      for (const keys of effort.some(KEYS)) cells.push(await measure(harness, workMs, keys))
    }
    return {
      tables: [
        ...effort.some(WORK_MS).map((workMs) => tableOf(harness, workMs, cells)),
        disorder(harness, cells),
      ],
      figures: effort.smoke ? [] : cells.map(figureOf),
      wrong: cells.flatMap(({ workMs, keys, rounds }) =>
        oursMustNot(
          rounds,
          ({ inversions, overlaps }) => inversions + overlaps,
          (times) => `${keys} keys, ${workMs} ms: ${times} jobs out of order or at once`,
        ),
      ),
    } satisfies Measured
  },
}

async function measure(harness: OrderedHarness, workMs: number, keys: number): Promise<Cell> {
  const { effort, runs, contenders } = harness
  harness.say(`throughput: ${workMs} ms of work, ${keys} keys`)
  const whole = JOBS[keys]?.[WORK_MS.findIndex((one) => one === workMs)] ?? keys
  const each = Math.ceil(effort.upTo(whole, SMOKE_JOBS) / keys)
  const rounds = await takeTurns(contenders, { ...effort, warmUps: 0 }, ({ name }) =>
    runs.run(name, { jobs: inTurns(keys, each, workMs), concurrency: CONCURRENCY, kept: false }),
  )
  return { workMs, keys, rounds }
}

function tableOf({ contenders }: OrderedHarness, workMs: number, cells: readonly Cell[]): Table {
  const own = cells.filter((cell) => cell.workMs === workMs)
  const most = ({ keys }: Cell): string =>
    workMs === 0 ? '' : number((Math.min(keys, SLOTS) / workMs) * 1_000)
  return {
    title: `${workMs} ms of work`,
    head: ['', ...own.map(({ keys }) => (keys === 1 ? '1 key' : `${number(keys)} keys`))],
    rows: [
      ...contenders.map((contender) => [
        contender.title,
        ...own.map(({ rounds }) => shown(spread(rounds.values(contender, perSecond)))),
      ]),
      ...(workMs === 0 ? [] : [['most that order and slots allow', ...own.map(most)]]),
    ],
  }
}

/** What order means to each. */
function disorder({ contenders }: OrderedHarness, cells: readonly Cell[]): Table {
  const total = (contender: Ordered, of: (outcome: Outcome) => number): string =>
    number(sum(cells.flatMap(({ rounds }) => rounds.values(contender, of))))
  return {
    title: 'All of these runs',
    head: ['', 'jobs', 'out of order', 'two of a key at once'],
    rows: contenders.map((contender) => [
      contender.title,
      total(contender, ({ runs }) => runs.length),
      total(contender, ({ inversions }) => inversions),
      total(contender, ({ overlaps }) => overlaps),
    ]),
  }
}

function figureOf({ workMs, keys, rounds }: Cell): Figure {
  const bound = rounds.contenders.find(({ kind }) => kind === 'bound')
  const name = `${number(keys)} ${keys === 1 ? 'key' : 'keys'}, ${workMs} ms`
  if (bound === undefined || keys === 1)
    return { name, ...besideBestPeer(rounds, perSecond, 'more') }
  const ours = oursIn(rounds)
  const peer = besideBestPeer(rounds, perSecond, 'more')
  const ofBound = rounds.compared(ours, bound, (one, other) => perSecond(one) / perSecond(other))
  return { name, ...peer, beside: `${peer.beside}; ${shown(ofBound)} of BullMQ without order` }
}
