import { execFile } from 'node:child_process'
import { access } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

/** The libraries are dependencies of `bench/` alone: installed when they are missing, from its lockfile. */
export async function installPeers(say: (line: string) => void): Promise<void> {
  const bench = fileURLToPath(new URL('..', import.meta.url))
  try {
    await access(`${bench}/node_modules/.package-lock.json`)
  } catch {
    say(`Installing the libraries under comparison: npm ci --prefix ${bench}`)
    const flags = ['--ignore-scripts', '--no-audit', '--no-fund']
    await promisify(execFile)('npm', ['ci', '--prefix', bench, ...flags], { timeout: 120_000 })
  }
}
