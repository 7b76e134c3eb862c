/** The command line of the coordination benchmark; `--help` lists its options. */
import { runPageBench } from '../page-bench.ts'
import { Harness } from './harness.ts'
import { measuredRow } from './row.ts'
import { rows } from './rows/index.ts'

await runPageBench<Harness>({
  name: 'bench:coordination',
  title: 'How jobs that share a resource are coordinated: fairness, order, crashes, overhead.',
  ...{ rows: rows.map(measuredRow), rounds: 5 },
  open: () => Harness.open(),
  versions: () => Promise.resolve({}),
  servers: async (harness) => `six Redis ${await harness.serverVersion()}`,
})
