/**
 * What leases cost in memory while they live, and what resources leave behind when they are over.
 */
import { contenders, type Contender } from '../contender.ts'
import { number } from '../format.ts'
import type { Lab } from '../lab.ts'
import type { Rounds } from '../../rounds.ts'
import { takeTurns } from '../../rounds.ts'
import { named, oursIn, oursMustNot, tableRows } from '../beside.ts'
import type { Figure, Measured, Row, Table } from '../row.ts'
import { spread } from '../../statistics.ts'

/** The longest lease that ours allows with its defaults: all must be alive at the same time. */
const TTL_MS = 30_000
const AT_ONCE = 256
const ROUNDS = 3
const LIVE = 10_000
const TOUCHED = 1_000_000
/** What the others leave behind does not depend on the number: they delete their key. */
const TOUCHED_BY_PEERS = 20_000
const LAPS = 10
const SMOKE_LAPS = 2

interface Live {
  readonly heapBytes: number
  readonly masterBytes: number
  readonly held: boolean
}

interface Touched {
  readonly resources: number
  readonly heapBytes: number
  readonly masterBytes: number
  /** The last tenth beside the first one. */
  readonly slowdown: number
}

export const memory: Row = {
  name: 'memory',
  load: 'Bytes for each lease while one process holds this number, and for each resource that was acquired and released once. A master is one of five.',
  async run(lab) {
    const live = await measureLive(lab)
    const touched = await takeTurns(contenders, { rounds: 1, warmUps: 0 }, (one) => touch(lab, one))
    return {
      tables: [liveTable(lab, live), touchedTable(touched)],
      figures: [figureOf(lab, live.of(oursIn(live)))],
      wrong: oursMustNot(
        live,
        ({ held }) => (held ? 0 : 1),
        () => 'memory: leases were lost while they were held',
      ),
      samples: { live: named(live), touched: named(touched) },
    } satisfies Measured
  },
}

async function measureLive(lab: Lab): Promise<Rounds<Contender, Live>> {
  const leases = lab.effort.upTo(LIVE, 200)
  lab.say(`memory: ${leases} live leases`)
  await using groups = await lab.open(contenders)
  return await takeTurns(
    contenders,
    { rounds: Math.min(lab.effort.rounds, ROUNDS), warmUps: 1 },
    async (contender) => {
      const { process, group } = groups.of(contender)
      const before = await lab.usedMemory()
      const load = { group, ttlMs: TTL_MS, leases, concurrency: AT_ONCE }
      const { heapBytes, held } = await process.ask('hold', load)
      const masterBytes = (await lab.usedMemory()) - before
      await process.ask('letGo', null)
      return { heapBytes, held, masterBytes: masterBytes / leases / lab.fleet.masters.length }
    },
  )
}

async function touch(lab: Lab, contender: Contender): Promise<Touched> {
  const full = contender.kind === 'ours' ? TOUCHED : TOUCHED_BY_PEERS
  const resources = lab.effort.upTo(full, 512)
  lab.say(`memory: ${resources} resources touched, ${contender.title}`)
  await using groups = await lab.open([contender])
  const { process, group } = groups.of(contender)
  const lap = async (prefix: string, operations: number): Promise<number> => {
    const load = { group, ttlMs: TTL_MS, concurrency: AT_ONCE, resources: operations }
    const flow = { ...load, order: 'walk', prefix, operations, durationMs: 250_000 } as const
    const { tookMs } = await process.ask('flow', flow)
    return tookMs
  }
  await lap('warm-up', AT_ONCE)
  const heapBefore = await process.ask('heap', null)
  const before = await lab.usedMemory()
  const laps: number[] = []
  const count = lab.effort.upTo(LAPS, SMOKE_LAPS)
  for (let index = 0; index < count; index++)
    laps.push(await lap(`lap${index}:`, resources / count))
  const masterBytes = (await lab.usedMemory()) - before
  const heapBytes = (await process.ask('heap', null)) - heapBefore
  return {
    resources,
    heapBytes: heapBytes / resources,
    masterBytes: masterBytes / resources / lab.fleet.masters.length,
    slowdown: (laps.at(-1) ?? NaN) / (laps[0] ?? NaN),
  }
}

function liveTable(lab: Lab, live: Rounds<Contender, Live>): Table {
  return {
    title: `${number(lab.effort.upTo(LIVE, 200))} live leases`,
    head: ['', 'bytes per lease in the client', 'in a master'],
    rows: tableRows(live, [({ heapBytes }) => heapBytes, ({ masterBytes }) => masterBytes]),
  }
}

function touchedTable(touched: Rounds<Contender, Touched>): Table {
  return {
    title: 'Resources touched once',
    head: [
      '',
      'resources',
      'bytes per resource in the client',
      'in a master',
      'time of the last tenth / the first',
    ],
    rows: tableRows(touched, [
      ({ resources }) => resources,
      ({ heapBytes }) => heapBytes,
      ({ masterBytes }) => masterBytes,
      ({ slowdown }) => slowdown,
    ]),
  }
}

function figureOf(lab: Lab, samples: readonly Live[]): Figure {
  const leases = number(lab.effort.upTo(LIVE, 200))
  return {
    name: `Heap in the client per lease, ${leases} live leases`,
    ...{ atMost: 2, unit: ' KiB' },
    measured: spread(samples.map(({ heapBytes }) => heapBytes / 1_024)),
  }
}
