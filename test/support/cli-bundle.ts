/**
 * The compiled command line in one file. Tests start it some two hundred times, and it starts in
 * half the time of as many modules as it has. `test/tools/cli/package.test.ts` runs what is
 * published.
 */
import { join } from 'node:path'
import { build } from 'esbuild'

const ROOT = join(import.meta.dirname, '..', '..')
const MAIN = join(ROOT, 'dist', 'cli.js')
/** Where its packages are found; those are part of it that always load. */
export const CLI_BUNDLE = 'node_modules/.cache/bullmq-redlock-cli.cjs'

export async function bundleCli(): Promise<void> {
  await build({
    ...{ entryPoints: [MAIN], outfile: join(ROOT, CLI_BUNDLE), logLevel: 'warning' },
    ...{ bundle: true, platform: 'node', format: 'cjs', target: 'node20.19' },
    external: ['pg', 'node-zookeeper-client', 'pino'],
  })
}
