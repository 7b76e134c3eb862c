/** What each contender does with ordered jobs: how fast it is, and what a killed worker costs. */
import { noPostgres } from '../../../scripts/lock-servers/postgres-server.ts'
import { inTurns, LEASE_MS, newQueueName } from '../../coordination/harness.ts'
import type { Harness, Outcome, Row } from '../../coordination/harness.ts'
import type { Contender } from '../../coordination/job.ts'
import { judgeLines, killOne } from '../../coordination/judge.ts'
import { peerOf } from '../../coordination/peers.ts'
import { figure, none, number, shown, tableOf } from '../../report.ts'
import type { Figure, Measured, Table } from '../../report.ts'
import { sum, takeTurns, type Effort, type Rounds, type Value } from '../../rounds.ts'

/** In the order of the tables. */
const TITLES: Partial<Record<Contender, string>> = {
  strict: 'bullmq-redlock',
  plain: 'BullMQ, without order',
  groupmq: 'groupmq',
  bunqueue: 'bunqueue',
  ...(!noPostgres && {
    'pg-boss': 'pg-boss, `key_strict_fifo`',
    'graphile-worker': 'graphile-worker, `queueName`',
  }),
}

const contenders = Object.keys(TITLES) as readonly Contender[]

function titleOf(contender: Contender): string {
  return TITLES[contender] ?? contender
}

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
  load: `Jobs per second, 2 processes × ${CONCURRENCY} slots, all jobs added before; jobs that are done are removed. Each contender has run 10,000 jobs before.`,
  async run(harness, effort): Promise<Measured> {
    const settings = { concurrency: CONCURRENCY, kept: false }
    for (const name of effort.of(contenders, [])) {
      // Workers live long: the first thousands of jobs are much slower, with every contender.
      await harness.run(name, { ...settings, jobs: inTurns(1_000, 10, 0) })
    }
    const cells: Cell[] = []
    for (const workMs of effort.some(WORK_MS)) {
      for (const keys of effort.some(KEYS)) {
        console.error(`throughput: ${workMs} ms of work, ${keys} keys`)
        const whole = JOBS[keys]?.[WORK_MS.indexOf(workMs)] ?? keys
        const each = Math.ceil(effort.of(whole, SMOKE_JOBS) / keys)
        const rounds = await takeTurns(contenders, { rounds: effort.rounds }, (name) =>
          harness.run(name, { ...settings, jobs: inTurns(keys, each, workMs) }),
        )
        cells.push({ workMs, keys, rounds })
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
    const speeds = effort.some(WORK_MS).map((workMs) =>
      speedsOf(
        workMs,
        cells.filter((cell) => cell.workMs === workMs),
      ),
    )
    return {
      tables: [...speeds, disorder],
      figures: [...cells.map(figureOf), none('Jobs of ours out of order or at once', wrong)],
    }
  },
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

const KILLED_KEYS = 8
const EACH = 25
const KILLED_WORK_MS = 40
const KILLED_SLOTS = 8
const ROUNDS = 3
const LIMIT_MS = 30_000

type Killed = Awaited<ReturnType<typeof kill>>

export const killed: Row = {
  name: 'killed',
  load: `\`kill -9\` of one of 2 processes while it runs jobs; ${KILLED_KEYS} keys × ${EACH} jobs × ${KILLED_WORK_MS} ms, ${KILLED_SLOTS} slots each. Leases, and what the others have in their place, of ${LEASE_MS / 1_000} s where that can be set.`,
  async run(harness, effort): Promise<Measured> {
    const turns = { rounds: Math.min(effort.rounds, ROUNDS) }
    const rounds = await takeTurns(effort.some(contenders), turns, (name) =>
      kill(harness, effort, name),
    )
    const total = (head: string, value: Value<Killed>) =>
      [head, (name: Contender) => number(rounds.sum(name, value))] as const
    const longest = (name: Contender): string => {
      const worst = rounds.worst(name, 'longestStandstillMs')
      return worst === Infinity ? `> ${number(LIMIT_MS)}` : number(Math.round(worst))
    }
    const table = tableOf(`${turns.rounds} kills of each`, rounds.contenders, [
      ['', titleOf],
      total('jobs', 'jobs'),
      total(`not run within ${LIMIT_MS / 1_000} s`, 'notRun'),
      total('started again', 'repeated'),
      total('ended twice', 'endedTwice'),
      total('out of order', 'outOfOrder'),
      total('two of a key at once', 'overlaps'),
      ['longest standstill of a key, ms', longest],
    ])
    const wrong = rounds.sum('strict', (one) => one.notRun + one.outOfOrder + one.overlaps)
    const lost = none('Jobs of ours that were lost, out of order or at once', wrong)
    return { figures: [lost], tables: [table] }
  },
}

async function kill(harness: Harness, effort: Effort, name: Contender) {
  console.error(`killed: ${name}`)
  const queue = newQueueName()
  const jobs = inTurns(KILLED_KEYS, effort.of(EACH, 8), KILLED_WORK_MS)
  const orders = harness.orders(name, queue, KILLED_SLOTS)
  const { seen, death } = await killOne({
    orders: { ...orders, keys: KILLED_KEYS, recoversSoon: true, removes: true },
    expected: jobs,
    ended: Math.min(3 * KILLED_KEYS, jobs.length / 2),
    ...{ running: 2, afterMs: KILLED_WORK_MS / 2 },
    limitMs: effort.of(LIMIT_MS, 8_000),
    add: () => harness.add(name, queue, jobs),
  })
  await harness.clear(name, queue)
  const ends = seen.filter(({ report }) => report === 'left')
  const done = new Set(ends.map(({ key, nr }) => `${key} ${nr}`)).size
  const { longestStandstillMs, ...history } = judgeLines(seen, death)
  return {
    ...{ ...history, jobs: jobs.length },
    ...{ notRun: jobs.length - done, endedTwice: ends.length - done },
    longestStandstillMs: done < jobs.length ? Infinity : longestStandstillMs,
  }
}
