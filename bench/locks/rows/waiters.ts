/** How soon the next of many waiters has the resource, beside a round trip in the same round. */
import { type Contender, oursIn, oursMustNot, tableRows } from '../../beside.ts'
import type { Measured } from '../../measured.ts'
import { takeTurns } from '../../rounds.ts'
import { spread } from '../../statistics.ts'
import { lockLibraries } from '../contender.ts'
import { LEASE_MS, type Row } from '../harness.ts'
import type { FlowResult, TurnsResult } from '../loads/calls.ts'

const WAITERS = 64
const HOLD_MS = 1
const FOR_MS = 1_000
const SMOKE_MS = 200
const WAIT_MS = 5_000
const RESOURCES = 50

interface Sample {
  readonly alone: FlowResult
  readonly waiting: TurnsResult
}

const tripMs = ({ alone }: Sample): number => alone.acquireMs.p50
const gapMs = ({ waiting }: Sample): number => waiting.gapMs.p50
const gapInTrips = (sample: Sample): number => gapMs(sample) / tripMs(sample)
const turns = ({ waiting }: Sample): number => waiting.done
const longestMs = ({ waiting }: Sample): number => waiting.waitMs.max
const clientUs = ({ waiting }: Sample): number => (waiting.cpuMs / waiting.done) * 1_000

export const waiters: Row = {
  name: 'waiters',
  load:
    `${WAITERS} waiters of one client want the same resource again and again for ${FOR_MS / 1_000} s, and hold it for ${HOLD_MS} ms. ` +
    'The gap is from the call that releases it to the next grant. A round trip is the median of an acquire alone.',
  async run(harness) {
    const { effort } = harness
    await using clients = await harness.open(lockLibraries, () => ({ waitMs: WAIT_MS }))
    const rounds = await takeTurns<Contender, Sample>(lockLibraries, effort, async (contender) => {
      const { process, client } = clients.of(contender)
      const durationMs = effort.forMs(FOR_MS, SMOKE_MS)
      const load = { client, ttlMs: LEASE_MS, durationMs }
      return {
        alone: await process.ask('flow', { ...load, concurrency: 1, resources: RESOURCES }),
        waiting: await process.ask('turns', { ...load, holdMs: HOLD_MS, waiters: WAITERS }),
      }
    })
    const head = ['', 'round trip, ms', 'gap, ms', 'gap / trip', 'turns', 'longest wait, ms']
    return {
      tables: [
        {
          title: `${WAITERS} waiters, held for ${HOLD_MS} ms`,
          head: [...head, 'client CPU per turn, µs'],
          rows: tableRows(rounds, [tripMs, gapMs, gapInTrips, turns, longestMs, clientUs]),
        },
      ],
      figures: [
        {
          ...{ name: `Gap of a hand-off, of a round trip, ${WAITERS} waiters`, atMost: 3 },
          ...{ measured: spread(rounds.values(oursIn(rounds), gapInTrips)), unit: 'x' },
        },
      ],
      wrong: oursMustNot(
        rounds,
        ({ waiting }) => waiting.overlaps,
        (times) => `waiters: ${times} times two held it at once`,
      ),
    } satisfies Measured
  },
}
