/** How long a fresh process takes to import a package. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { median } from './statistics.ts'

/** Prints the milliseconds that an `await import(…)` took. */
const IMPORT = `
  const startedAt = process.hrtime.bigint()
  await import(process.argv[1])
  console.log(Number(process.hrtime.bigint() - startedAt) / 1e6)
`

export interface ImportTimes<Name extends string> {
  /** In milliseconds. */
  median(name: Name): number
  /** The median of the ratios of the rounds: what slows the machine slows both of a round. */
  ratio(name: Name, to: Name): number
}

/** @param directory where the packages are installed. */
export async function importTimes<Name extends string>(
  directory: string,
  names: readonly Name[],
  rounds: number,
): Promise<ImportTimes<Name>> {
  const times = new Map<Name, number[]>(names.map((name) => [name, []]))
  // One process at a time, of each package in turn. The first round only fills caches.
  for (let round = -1; round < rounds; round++) {
    for (const name of names) {
      const args = ['--input-type=module', '--eval', IMPORT, name]
      const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: directory })
      if (round >= 0) times.get(name)?.push(Number(stdout))
    }
  }
  const of = (name: Name): readonly number[] => times.get(name) ?? []
  return {
    median: (name) => median(of(name)),
    ratio: (name, to) => median(of(name).map((ms, round) => ms / (of(to)[round] ?? NaN))),
  }
}
