import { execFile } from 'node:child_process'
import { access } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

/**
 * The libraries have a package of their own, `bench/peers`: installed when they are missing, from
 * its lockfile.
 */
export async function installPeers(say: (line: string) => void): Promise<void> {
  const peers = fileURLToPath(new URL('.', import.meta.url))
  try {
    await access(`${peers}node_modules/.package-lock.json`)
  } catch {
    say(`Installing the libraries under comparison: npm ci --prefix ${peers}`)
    const flags = ['--ignore-scripts', '--no-audit', '--no-fund']
    await promisify(execFile)('npm', ['ci', '--prefix', peers, ...flags], { timeout: 120_000 })
  }
}
