/** The command line of the lock benchmark; `--help` says what it takes. */
import { runBenchmark } from '../bench.ts'
import { libraries } from '../peers/libraries.ts'
import { openHarness } from './harness.ts'
import { degraded } from './rows/degraded.ts'
import { acquire, fsync, roundTrip } from './rows/flow.ts'
import { memory, waiters } from './rows/held.ts'

await runBenchmark({
  name: 'bench:locks',
  title: 'How fast the lock is, beside five published ones and two bounds.',
  rows: [acquire, roundTrip, fsync, waiters, degraded, memory],
  rounds: 5,
  open: openHarness,
  packages: libraries.flatMap(({ packages }) => packages),
})
