/** Packages that only one test needs: installed by it, when they are missing. */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'

/**
 * Returns why that could not be done, for a machine without a registry.
 * @throws Error for a lock file that npm refuses: that is a fault of ours.
 */
export async function installIn(directory: string, limitMs: number): Promise<string | undefined> {
  if (existsSync(join(directory, 'node_modules', '.package-lock.json'))) return undefined
  const flags = ['--ignore-scripts', '--no-audit', '--no-fund']
  const options = { timeout: limitMs }
  try {
    await promisify(execFile)('npm', ['ci', '--prefix', directory, ...flags], options)
    return undefined
  } catch (error) {
    const said = String((error as { stderr?: unknown }).stderr ?? error)
    if (/code EUSAGE/.test(said)) throw new Error(said, { cause: error })
    return `npm ci failed: ${said}`
  }
}
