/** The command line of the benchmark of ordered jobs; `--help` says what it takes. */
import { peerVersion, versionIn } from '../peers/load.ts'
import { runPageBench } from '../page-bench.ts'
import { OrderedHarness } from './harness.ts'
import { rows } from './rows/index.ts'

await runPageBench<OrderedHarness>({
  name: 'bench:ordered',
  title: 'Jobs of one key in their order: how fast, and what a killed worker does to it.',
  ...{ rows, rounds: 3 },
  open: (effort, say) => OrderedHarness.open(effort, say),
  async versions({ contenders }) {
    const versions: Record<string, readonly string[]> = {}
    for (const { title, name, packages } of contenders) {
      const own =
        name === 'strict' ? ['../..'] : name === 'plain' ? ['../../node_modules/bullmq'] : []
      versions[title] = await Promise.all([
        ...own.map((directory) => versionIn(directory)),
        ...packages.map((one) => peerVersion(one)),
      ])
    }
    return versions
  },
  servers: async ({ runs }) => `Redis ${await runs.serverVersion()}`,
})
