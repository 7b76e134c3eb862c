/** The package compiled, for tests of what is published. */
import { execFile } from 'node:child_process'
import { readdirSync, statSync } from 'node:fs'
import { cp, mkdtemp, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'

const ROOT = join(import.meta.dirname, '..', '..')
const SOURCES = ['src', 'scripts', 'package.json', 'tsconfig.json']

/**
 * Puts `dist` into a directory. `npm run` has built it just now; where it is older than a source, a
 * copy of the project builds it, because other tests use the one that is there.
 */
export async function compileInto(directory: string): Promise<void> {
  const dist = join(directory, 'dist')
  if (isBuilt()) return cp(join(ROOT, 'dist'), dist, { recursive: true })
  const copy = await mkdtemp(join(tmpdir(), 'bullmq-redlock-compiled-'))
  try {
    for (const name of SOURCES) await cp(join(ROOT, name), join(copy, name), { recursive: true })
    await symlink(join(ROOT, 'node_modules'), join(copy, 'node_modules'))
    const bin = join(ROOT, 'node_modules', '.bin')
    await promisify(execFile)(join(bin, 'tsx'), ['scripts/build.ts'], { cwd: copy })
    await cp(join(copy, 'dist'), dist, { recursive: true })
  } finally {
    await rm(copy, { recursive: true, force: true })
  }
}

/** Whether `dist` is newer than every source. */
export function isBuilt(): boolean {
  const changedAt = (path: string): number =>
    statSync(join(ROOT, path), { throwIfNoEntry: false })?.mtimeMs ?? 0
  const sources = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' })
  const newest = Math.max(...sources.map((path) => changedAt(join('src', path))))
  return changedAt('dist/cli.js') > newest
}
