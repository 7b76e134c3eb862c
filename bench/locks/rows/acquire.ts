/** Acquire and release of free resources. */
import { contenders } from '../contender.ts'
import { shown } from '../../format.ts'
import { type Harness, type MasterCost } from '../harness.ts'
import type { FlowResult } from '../loads/calls.ts'
import { askRedisBenchmark, type Bound } from '../redis-benchmark.ts'
import { type Rounds, takeTurns } from '../../rounds.ts'
import { type Contender, besideBestPeer, oursMustNot, tableRows } from '../../beside.ts'
import type { Figure, Measured, Table } from '../../measured.ts'
import type { Row } from '../harness.ts'
import { spread } from '../../statistics.ts'

const CONCURRENCY = [1, 16, 64, 256] as const
const MANY = 64
/** A multiple of every concurrency, so that no two clients meet. */
const RESOURCES = 10_240
const FOR_MS = 1_000
const BOUND_REQUESTS = 20_000

type Sample = FlowResult & MasterCost

interface Level {
  readonly concurrency: number
  readonly autoPipelining: boolean
  readonly rounds: Rounds<Contender, Sample>
  readonly bounds: readonly Bound[]
}

export const acquire: Row = {
  name: 'acquire',
  load: 'Acquire and release of free resources, this number at a time. CPU is for one acquire and its release.',
  async run(harness) {
    const concurrencies = harness.effort.smoke ? [1, MANY] : CONCURRENCY
    const levels: Level[] = []
    for (const concurrency of concurrencies) levels.push(await measure(harness, concurrency, false))
    const alone = levelOf(levels, 1)
    const many = levelOf(levels, MANY)
    const pipelined = await measure(harness, MANY, true)
    levels.push(pipelined)
    return {
      tables: levels.map(tableOf),
      figures: figuresOf(alone, many, pipelined),
      wrong: levels.flatMap(wrongIn),
    } satisfies Measured
  },
}

async function measure(
  harness: Harness,
  concurrency: number,
  autoPipelining: boolean,
): Promise<Level> {
  const { effort } = harness
  harness.say(`acquire: ${titleOf(concurrency, autoPipelining)}`)
  await using clients = await harness.open(contenders, () => ({ autoPipelining }))
  const rounds = await takeTurns(contenders, effort, (contender) => {
    const flow = { concurrency, resources: RESOURCES, durationMs: effort.forMs(FOR_MS) }
    return harness.metered(() => clients.flow(contender, flow))
  })
  const bounds: Bound[] = []
  for (let round = 0; round < effort.rounds; round++) {
    const requests = effort.upTo(BOUND_REQUESTS, 1_000)
    const bound = await askRedisBenchmark(harness, concurrency, requests)
    if (bound !== undefined) bounds.push(bound)
  }
  return { concurrency, autoPipelining, rounds, bounds }
}

const perSecond = ({ done, tookMs }: Sample): number => (done / tookMs) * 1_000
const medianMs = ({ acquireMs }: Sample): number => acquireMs.p50
const p99Ms = ({ acquireMs }: Sample): number => acquireMs.p99
const clientUs = ({ done, cpuMs }: Sample): number => (cpuMs / done) * 1_000
const mastersUs = ({ done, mastersCpuMs }: Sample): number => (mastersCpuMs / done) * 1_000

function tableOf({ concurrency, autoPipelining, rounds, bounds }: Level): Table {
  const bound = shown(spread(bounds.map((one) => one.perSecond)))
  return {
    title: titleOf(concurrency, autoPipelining),
    head: ['', 'leases/s', 'acquire p50, ms', 'p99, ms', 'client CPU, µs', 'masters CPU, µs'],
    rows: [
      ...tableRows(rounds, [perSecond, medianMs, p99Ms, clientUs, mastersUs]),
      ['redis-benchmark', bound, '', '', '', ''],
    ],
  }
}

function figuresOf(alone: Level, many: Level, pipelined: Level): readonly Figure[] {
  return [
    {
      ...{ name: `Leases per second with fencing, ${MANY} at a time`, atLeast: 4 },
      ...besideBestPeer(many.rounds, perSecond, 'more'),
    },
    {
      name: '… beside peers with enableAutoPipelining',
      ...besideBestPeer(pipelined.rounds, perSecond, 'more'),
    },
    {
      ...{ name: `Client CPU per lease, ${MANY} at a time`, atMost: 0.2 },
      ...besideBestPeer(many.rounds, clientUs, 'less'),
    },
    {
      name: '… beside peers with enableAutoPipelining',
      ...besideBestPeer(pipelined.rounds, clientUs, 'less'),
    },
    {
      ...{ name: 'Median time of an acquire, 1 at a time', atMost: 1 },
      ...besideBestPeer(alone.rounds, medianMs, 'less'),
    },
  ]
}

function wrongIn({ concurrency, rounds }: Level): readonly string[] {
  return oursMustNot(
    rounds,
    ({ failed, stuck }) => failed + stuck,
    (times) => `acquire, ${concurrency} at a time: ${times} free resources were not granted`,
  )
}

function levelOf(levels: readonly Level[], concurrency: number): Level {
  const level = levels.find((one) => one.concurrency === concurrency)
  if (level === undefined) throw new Error(`${concurrency} at a time was not measured`)
  return level
}

function titleOf(concurrency: number, autoPipelining: boolean): string {
  const tuned = ", the other libraries with ioredis' `enableAutoPipelining`"
  return `${concurrency} at a time${autoPipelining ? tuned : ''}`
}
