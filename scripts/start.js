/**
 * Starts a program of this repository with Node alone, also in a fresh clone: where packages are
 * missing it installs the few that programs need, in the versions of the lock file. The others,
 * which only tests and checks need, take several times as long: `npm ci` installs all.
 *
 *   node scripts/start.js workers/dev.ts [arguments]
 */
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import process from 'node:process'
import { URL, fileURLToPath, pathToFileURL } from 'node:url'

const NEEDED = ['tsx', 'bullmq', 'ioredis', '@electric-sql/pglite']

const root = fileURLToPath(new URL('..', import.meta.url))
const isMissing = (name) => !existsSync(`${root}node_modules/${name}`)
if (NEEDED.some(isMissing)) install()

// The program finds its own arguments where it expects them.
process.argv.splice(1, 1)
// Its children are started as it is.
process.execArgv.push('--import', 'tsx')
await import('tsx')
await import(pathToFileURL(process.argv[1]).href)

function install() {
  const { packages } = JSON.parse(readFileSync(`${root}package-lock.json`, 'utf8'))
  const exact = NEEDED.map((name) => `${name}@${packages[`node_modules/${name}`].version}`)
  process.stdout.write(`Installing ${exact.join(' ')}. For the tests: npm ci\n`)
  // As dependencies: development's are left out.
  const args = ['install', '--no-save', '--save-prod', '--omit=dev', ...exact]
  const quietly = ['--no-audit', '--no-fund', '--loglevel=error']
  const { status } = spawnSync('npm', [...args, ...quietly], { cwd: root, stdio: 'inherit' })
  if (status !== 0) process.exit(status ?? 1)
}
