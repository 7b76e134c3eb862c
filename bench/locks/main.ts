/** The command line of the lock benchmark; `--help` says what it takes. */
import { runPageBench } from '../page-bench.ts'
import { contenders } from './contender.ts'
import { Harness } from './harness.ts'
import { rows } from './rows/index.ts'

await runPageBench<Harness>({
  name: 'bench:locks',
  title: 'How fast the lock is, beside five published ones and two bounds.',
  ...{ rows, rounds: 5 },
  open: (effort, say) => Harness.open(effort, say),
  async versions(harness) {
    const versions: Record<string, readonly string[]> = {}
    for (const contender of contenders) {
      versions[contender.title] = await (await harness.process(contender)).ask('versions', null)
    }
    return versions
  },
  servers: async (harness) => `five Redis ${await harness.serverVersion()}`,
})
