/** What the death of a worker process does to the jobs of each queue. */
import {
  inTurns,
  LEASE_MS,
  newQueueName,
  type Harness,
  type Row,
} from '../../coordination/harness.ts'
import type { Contender } from '../../coordination/job.ts'
import { judgeLines } from '../../coordination/judge.ts'
import { killOne } from '../../coordination/kill.ts'
import { none, number, tableOf, type Measured } from '../../report.ts'
import { type Effort, takeTurns, type Value } from '../../rounds.ts'
import { contenders, titleOf } from '../contenders.ts'

const KEYS = 8
const EACH = 25
const WORK_MS = 40
const CONCURRENCY = 8
const ROUNDS = 3
const LIMIT_MS = 30_000

type Outcome = Awaited<ReturnType<typeof kill>>

export const killed: Row = {
  name: 'killed',
  load: `\`kill -9\` of one of 2 processes while it runs jobs; ${KEYS} keys × ${EACH} jobs × ${WORK_MS} ms, ${CONCURRENCY} slots each. Leases, and what the others have in their place, of ${LEASE_MS / 1_000} s where that can be set.`,
  async run(harness, effort): Promise<Measured> {
    const turns = { rounds: Math.min(effort.rounds, ROUNDS) }
    const rounds = await takeTurns(effort.some(contenders), turns, (name) =>
      kill(harness, effort, name),
    )
    const total = (head: string, value: Value<Outcome>) =>
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
  const jobs = inTurns(KEYS, effort.of(EACH, 8), WORK_MS)
  const orders = harness.orders(name, queue, CONCURRENCY)
  const { seen, death } = await killOne({
    orders: { ...orders, keys: KEYS, recoversSoon: true, removes: true },
    expected: jobs,
    ...{ ended: Math.min(3 * KEYS, jobs.length / 2), running: 2, afterMs: WORK_MS / 2 },
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
