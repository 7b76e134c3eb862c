/** What leases cost in memory while they live. */
import { contenders } from '../contender.ts'
import { number } from '../../format.ts'
import type { Harness } from '../harness.ts'
import type { Rounds } from '../../rounds.ts'
import { takeTurns } from '../../rounds.ts'
import { type Contender, oursIn, oursMustNot, tableRows } from '../../beside.ts'
import type { Figure, Measured, Table } from '../../measured.ts'
import type { Row } from '../harness.ts'
import { spread } from '../../statistics.ts'

/** The longest lease that ours allows with its defaults: all must be alive at the same time. */
const TTL_MS = 30_000
const AT_ONCE = 256
const ROUNDS = 3
const LIVE = 10_000

interface Live {
  readonly heapBytes: number
  readonly masterBytes: number
  readonly held: boolean
}

export const memory: Row = {
  name: 'memory',
  load: 'Bytes for each lease while one process holds this number. A master is one of five.',
  async run(harness) {
    const live = await measureLive(harness)
    return {
      tables: [liveTable(harness, live)],
      figures: [figureOf(harness, live.of(oursIn(live)))],
      wrong: oursMustNot(
        live,
        ({ held }) => (held ? 0 : 1),
        () => 'memory: leases were lost while they were held',
      ),
    } satisfies Measured
  },
}

async function measureLive(harness: Harness): Promise<Rounds<Contender, Live>> {
  const leases = harness.effort.upTo(LIVE, 200)
  harness.say(`memory: ${leases} live leases`)
  await using clients = await harness.open(contenders)
  return await takeTurns(
    contenders,
    { rounds: Math.min(harness.effort.rounds, ROUNDS), warmUps: 1 },
    async (contender) => {
      const { process, client } = clients.of(contender)
      const before = await harness.usedMemory()
      const load = { client, ttlMs: TTL_MS, leases, concurrency: AT_ONCE }
      const { heapBytes, held } = await process.ask('hold', load)
      const masterBytes = (await harness.usedMemory()) - before
      await process.ask('letGo', null)
      return { heapBytes, held, masterBytes: masterBytes / leases / harness.fleet.masters.length }
    },
  )
}

function liveTable(harness: Harness, live: Rounds<Contender, Live>): Table {
  return {
    title: `${number(harness.effort.upTo(LIVE, 200))} live leases`,
    head: ['', 'bytes per lease in the client', 'in a master'],
    rows: tableRows(live, [({ heapBytes }) => heapBytes, ({ masterBytes }) => masterBytes]),
  }
}

function figureOf(harness: Harness, samples: readonly Live[]): Figure {
  const leases = number(harness.effort.upTo(LIVE, 200))
  return {
    name: `Heap in the client per lease, ${leases} live leases`,
    ...{ atMost: 2, unit: ' KiB' },
    measured: spread(samples.map(({ heapBytes }) => heapBytes / 1_024)),
  }
}
