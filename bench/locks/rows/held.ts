/** Leases that are held: what many cost while they live, and how soon the next waiter has one. */
import { OURS } from '../../peers/libraries.ts'
import { figure, none, number, type Measured } from '../../report.ts'
import { takeTurns } from '../../rounds.ts'
import { LEASE_MS, locks, lockTable, type Row } from '../harness.ts'

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

const WAITERS = 64
const HOLD_MS = 1
const FOR_MS = 1_000
const WAIT_MS = 5_000

export const waiters: Row = {
  name: 'waiters',
  load:
    `${WAITERS} waiters of one client want the same resource again and again for ${FOR_MS / 1_000} s, and hold it for ${HOLD_MS} ms. ` +
    'The gap is from the call that releases it to the next grant. A round trip is the median of an acquire alone.',
  async run(harness, effort): Promise<Measured> {
    await using clients = await harness.open(locks, () => ({ waitMs: WAIT_MS }))
    const load = { ttlMs: LEASE_MS, durationMs: effort.of(FOR_MS, 200) }
    const rounds = await takeTurns(locks, effort, async (contender) => {
      const client = clients.of(contender)
      const alone = await client.load('flow', { ...load, concurrency: 1, resources: 50 })
      const waiting = await client.load('turns', { ...load, holdMs: HOLD_MS, waiters: WAITERS })
      const { medianMs: tripMs } = alone
      return { ...waiting, tripMs, gapInTrips: waiting.gapMs / tripMs }
    })
    const table = lockTable(`${WAITERS} waiters, held for ${HOLD_MS} ms`, rounds, [
      ['round trip, ms', 'tripMs'],
      ['gap, ms', 'gapMs'],
      ['gap / trip', 'gapInTrips'],
      ['turns', 'done'],
      ['longest wait, ms', 'longestMs'],
    ])
    const gap = rounds.spread(OURS, 'gapInTrips')
    const figures = [
      figure(`Gap of a hand-off, of a round trip, ${WAITERS} waiters`, gap, 'x', { atMost: 3 }),
      none('Times that two held it at once', rounds.sum(OURS, 'overlaps')),
    ]
    return { tables: [table], figures }
  },
}
