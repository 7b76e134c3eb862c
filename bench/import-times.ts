/** How long a fresh process takes to import a package. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { takeTurns, type Rounds } from './rounds.ts'

/** Prints the milliseconds that an `await import(…)` took. */
const IMPORT = `
  const startedAt = process.hrtime.bigint()
  await import(process.argv[1])
  console.log(Number(process.hrtime.bigint() - startedAt) / 1e6)
`

/** One process at a time, of each package in turn. @param directory where they are installed. */
export function importTimes(
  directory: string,
  names: readonly string[],
  rounds: number,
): Promise<Rounds<string, { readonly ms: number }>> {
  // The warm-up only fills caches.
  return takeTurns(names, { rounds, warmUps: 1 }, async (name) => {
    const args = ['--input-type=module', '--eval', IMPORT, name]
    const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: directory })
    return { ms: Number(stdout) }
  })
}
