/** Before any test: there must be something that runs real Redis servers. */

import { provisionServer } from '../../scripts/provision-server.ts'
import { COMPILED, isBuilt } from '../tools/cli/run-cli.ts'
import { bundleCli } from './cli-bundle.ts'

export async function setup(): Promise<void> {
  const say = (line: string): void => {
    process.stdout.write(`${line}\n`)
  }
  await provisionServer({ install: true, say })
  if (isBuilt(COMPILED)) await bundleCli()
}
