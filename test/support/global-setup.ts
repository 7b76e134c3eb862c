/** Before any test: there must be something that runs real Redis servers, and compiled programs. */

import { provisionServer } from '../../scripts/provision-server.ts'
import { compilePrograms } from './programs.ts'

export async function setup(): Promise<() => Promise<void>> {
  const say = (line: string): void => {
    process.stdout.write(`${line}\n`)
  }
  await provisionServer({ install: true, say })
  return compilePrograms()
}
