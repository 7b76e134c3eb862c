/** Before any test: there must be something that runs real Redis servers. */

import { provisionServer } from '../../scripts/provision-server.ts'

export async function setup(): Promise<void> {
  const say = (line: string): void => {
    process.stdout.write(`${line}\n`)
  }
  await provisionServer({ install: true, say })
}
