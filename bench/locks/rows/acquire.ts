/** Acquire and release of free resources. */
import type { Effort } from '../../bench.ts'
import type { FlowResult } from '../../peers/loads.ts'
import { RAW } from '../../peers/libraries.ts'
import { shown, type Measured, type Table } from '../../report.ts'
import { takeTurns, type Rounds } from '../../rounds.ts'
import { spread } from '../../statistics.ts'
import { besideBest, locks, lockTable, noneMissed, type Harness, type Row } from '../harness.ts'
import { askRedisBenchmark } from '../redis-benchmark.ts'

const CONCURRENCY = [1, 16, 64, 256]
const MANY = 64

interface Level {
  readonly rounds: Rounds<string, FlowResult & { readonly mastersUs: number }>
  readonly table: Table
}

export const acquire: Row = {
  name: 'acquire',
  load: 'Acquire and release of free resources, this number at a time. CPU is for one acquire and its release.',
  async run(harness, effort): Promise<Measured> {
    const levels = new Map<number, Level>()
    for (const concurrency of effort.of(CONCURRENCY, [1, MANY])) {
      levels.set(concurrency, await measure(harness, effort, concurrency, false))
    }
    const pipelined = await measure(harness, effort, MANY, true)
    const [alone = pipelined, many = pipelined] = [levels.get(1), levels.get(MANY)]
    const all = [...levels.values(), pipelined]
    const [perSecond, cpu] = ['Leases per second with fencing', 'Client CPU per lease']
    const tuned = '… beside peers with enableAutoPipelining'
    const figures = [
      besideBest(`${perSecond}, ${MANY} at a time`, many.rounds, 'perSecond', 'more', {
        atLeast: 4,
      }),
      besideBest(tuned, pipelined.rounds, 'perSecond', 'more'),
      besideBest(`${cpu}, ${MANY} at a time`, many.rounds, 'clientUs', 'less', { atMost: 0.2 }),
      besideBest(tuned, pipelined.rounds, 'clientUs', 'less'),
      besideBest('Median time of an acquire, 1 at a time', alone.rounds, 'medianMs', 'less', {
        atMost: 1,
      }),
      ...all.map(({ rounds }) => noneMissed(rounds, 'missed')),
    ]
    return { figures, tables: all.map(({ table }) => table) }
  },
}

async function measure(
  harness: Harness,
  effort: Effort,
  concurrency: number,
  autoPipelining: boolean,
): Promise<Level> {
  const tuned = ", the other libraries with ioredis' `enableAutoPipelining`"
  const title = `${concurrency} at a time${autoPipelining ? tuned : ''}`
  console.error(`acquire: ${title}`)
  const contenders = [...locks, RAW]
  await using clients = await harness.open(contenders, () => ({ autoPipelining }))
  const rounds = await takeTurns(contenders, effort, async (contender) => {
    const before = await harness.mastersCpuUs()
    const result = await clients.flow(contender, concurrency, effort.of(1_000, 60))
    return { ...result, mastersUs: ((await harness.mastersCpuUs()) - before) / result.done }
  })
  const bounds: number[] = []
  for (let round = 0; round < effort.rounds; round++) {
    bounds.push(await askRedisBenchmark(harness, concurrency, effort.of(20_000, 1_000)))
  }
  const table = lockTable(title, rounds, [
    ['leases/s', 'perSecond'],
    ['acquire p50, ms', 'medianMs'],
    ['p99, ms', 'p99Ms'],
    ['client CPU, µs', 'clientUs'],
    ['masters CPU, µs', 'mastersUs'],
  ])
  const bound = ['redis-benchmark', shown(spread(bounds)), '', '', '', '']
  return { rounds, table: { ...table, rows: [...table.rows, bound] } }
}
