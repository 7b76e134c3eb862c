/** What leases cost in memory while they live. */
import { OURS } from '../../peers/libraries.ts'
import { figure, none, number, type Measured } from '../../report.ts'
import { takeTurns } from '../../rounds.ts'
import { locks, lockTable, type Row } from '../harness.ts'

/** The longest lease that ours allows with its defaults: all must be alive at the same time. */
const TTL_MS = 30_000
const ROUNDS = 3

export const memory: Row = {
  name: 'memory',
  load: 'Bytes for each lease while one process holds this number.',
  async run(harness, effort): Promise<Measured> {
    const leases = effort.of(10_000, 200)
    await using clients = await harness.open(locks)
    const turns = { rounds: Math.min(effort.rounds, ROUNDS), warmUps: 1 }
    const rounds = await takeTurns(locks, turns, async (contender) => {
      const client = clients.of(contender)
      const result = await client.load('hold', { ttlMs: TTL_MS, leases, concurrency: 256 })
      await client.process.ask('letGo', undefined)
      return result
    })
    const title = `${number(leases)} live leases`
    const table = lockTable(title, rounds, [['bytes per lease in the client', 'heapBytes']])
    const heap = rounds.spread(OURS, ({ heapBytes }) => heapBytes / 1_024)
    const figures = [
      figure(`Heap in the client per lease, ${title}`, heap, 'KiB', { atMost: 2 }),
      none('Leases that were lost while they were held', rounds.sum(OURS, 'lost')),
    ]
    return { tables: [table], figures }
  },
}
