/** The command line of the benchmark of ordered jobs; `--help` says what it takes. */
import { noPostgres } from '../../scripts/lock-servers/postgres-server.ts'
import { runBenchmark } from '../bench.ts'
import { openHarness } from '../coordination/harness.ts'
import { killed, throughput } from './rows/contenders.ts'
import { scale } from './rows/scale.ts'

const PACKAGES = ['bullmq-redlock', 'bullmq', 'groupmq', 'bunqueue', 'bun']
const ON_POSTGRES = ['pg-boss', 'graphile-worker']
if (noPostgres) console.error(`${ON_POSTGRES.join(', ')} are left out: apt-get install postgresql`)

await runBenchmark({
  name: 'bench:ordered',
  title: 'Jobs of one key in their order: how fast, and what a killed worker does to it.',
  rows: [throughput, killed, scale],
  rounds: 3,
  open: () => openHarness(2, true),
  packages: [...PACKAGES, ...(noPostgres ? [] : ON_POSTGRES)],
})
