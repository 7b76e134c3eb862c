/** The command line of the lock benchmark; `--help` says what it takes. */
import { runBenchmark } from '../bench.ts'
import { libraries } from '../peers/libraries.ts'
import { Harness } from './harness.ts'
import { acquire } from './rows/acquire.ts'
import { degraded } from './rows/degraded.ts'
import { fsync } from './rows/fsync.ts'
import { memory } from './rows/memory.ts'
import { roundTrip } from './rows/round-trip.ts'
import { waiters } from './rows/waiters.ts'

await runBenchmark<Harness>({
  name: 'bench:locks',
  title: 'How fast the lock is, beside five published ones and two bounds.',
  rows: [acquire, roundTrip, fsync, waiters, degraded, memory],
  rounds: 5,
  open: () => Harness.open(),
  packages: libraries.flatMap(({ packages }) => packages),
})
