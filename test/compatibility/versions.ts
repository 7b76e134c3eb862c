/**
 * Versions of BullMQ side by side: each is installed once, from the registry, into a directory of
 * its own below the system's temporary directory, and is there for the next run.
 */
import { execFile } from 'node:child_process'
import {
  access,
  cp,
  mkdir,
  mkdtemp,
  readdir,
  rename,
  rm,
  symlink,
  writeFile,
} from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'

const ROOT = resolve(import.meta.dirname, '../..')
const CACHE = join(tmpdir(), 'bullmq-redlock-versions')
const NPM_LIMIT_MS = 180_000
const CHILD = 'test/compatibility/version-child.ts'

const run = promisify(execFile)

/**
 * All versions of BullMQ 5 and 6 in ascending order; those that were installed before where no
 * registry answers.
 */
export async function knownVersions(): Promise<readonly string[]> {
  const known = await run('npm', ['view', 'bullmq', 'versions', '--json'], {
    timeout: NPM_LIMIT_MS,
  }).then(
    ({ stdout }) => JSON.parse(stdout) as readonly string[],
    () => readdir(CACHE).catch(() => []),
  )
  return known.filter((version) => /^[56]\.\d+\.\d+$/.test(version)).toSorted(ascending)
}

function ascending(one: string, other: string): number {
  const [a, b] = [one.split('.').map(Number), other.split('.').map(Number)]
  const index = a.findIndex((part, place) => part !== b[place])
  return index === -1 ? 0 : (a[index] ?? 0) - (b[index] ?? 0)
}

/**
 * Installs a version unless it is there; the directory has it and its ioredis in `node_modules`.
 */
export async function installed(version: string): Promise<string> {
  const folder = join(CACHE, version)
  if (await exists(join(folder, 'node_modules/bullmq/package.json'))) return folder
  await mkdir(CACHE, { recursive: true })
  const fresh = await mkdtemp(join(CACHE, '.new-'))
  await writeFile(join(fresh, 'package.json'), '{ "private": true }')
  const packages = [`bullmq@${version}`, 'ioredis@^6.0.0']
  const quiet = ['--ignore-scripts', '--no-audit', '--no-fund', '--legacy-peer-deps']
  await run('npm', ['install', ...quiet, ...packages], { cwd: fresh, timeout: NPM_LIMIT_MS })
  // Another run may have been quicker: its directory is as good.
  await rename(fresh, folder).catch(() => rm(fresh, { recursive: true }))
  return folder
}

/**
 * A copy of this project's sources whose `bullmq` is that version. All other packages are those of
 * the project. Disposing removes it.
 */
export async function projectWith(version: string): Promise<AsyncDisposable & { child: string }> {
  const folder = await installed(version)
  const project = await mkdtemp(join(tmpdir(), 'bullmq-redlock-with-'))
  await cp(join(ROOT, 'src'), join(project, 'src'), { recursive: true })
  await cp(join(ROOT, 'package.json'), join(project, 'package.json'))
  await mkdir(dirname(join(project, CHILD)), { recursive: true })
  await cp(join(ROOT, CHILD), join(project, CHILD))
  await mkdir(join(project, 'node_modules'))
  const linked = new Set<string>()
  for (const from of [join(folder, 'node_modules'), join(ROOT, 'node_modules')]) {
    for (const name of await readdir(from)) {
      if (name.startsWith('.') || linked.has(name)) continue
      linked.add(name)
      // A scope that the version brings hides the project's: nothing of ours is in one of those.
      await symlink(join(from, name), join(project, 'node_modules', name))
    }
  }
  return {
    child: join(project, CHILD),
    [Symbol.asyncDispose]: () => rm(project, { recursive: true }),
  }
}

function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  )
}
