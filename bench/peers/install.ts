import { execFile } from 'node:child_process'
import { stat } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

/**
 * The libraries have a package of their own, `bench/peers`: installed from its lockfile when they
 * are missing, or older than it.
 */
export async function installPeers(say: (line: string) => void): Promise<void> {
  const peers = fileURLToPath(new URL('.', import.meta.url))
  const writtenAt = (file: string): Promise<number> =>
    stat(peers + file).then(
      ({ mtimeMs }) => mtimeMs,
      () => 0,
    )
  const installedAt = await writtenAt('node_modules/.package-lock.json')
  if (installedAt <= (await writtenAt('package-lock.json'))) {
    say(`Installing the libraries under comparison: npm ci --prefix ${peers}`)
    const flags = ['--ignore-scripts', '--no-audit', '--no-fund']
    await promisify(execFile)('npm', ['ci', '--prefix', peers, ...flags], { timeout: 120_000 })
  }
}
