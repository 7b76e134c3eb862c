/** An application in an empty folder, which has installed this package from its tarball. */
import { spawnSync, type SpawnSyncReturns } from 'node:child_process'
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isBuilt } from '../support/compiled.ts'

export const ROOT = join(import.meta.dirname, '..', '..')
const PACKED = ['src', 'scripts', 'package.json', 'tsconfig.json']
const ALSO_PACKED = ['README.md', 'CHANGELOG.md', 'LICENSE']
const FLAGS = ['install', '--ignore-scripts', '--no-audit', '--no-fund']

export interface PackedApp {
  /** What the tarball has. */
  readonly tarball: readonly string[]
  /** A path in the application's folder. */
  path(...parts: readonly string[]): string
  run(program: string, args: readonly string[]): SpawnSyncReturns<string>
  remove(): void
}

/** @param tools packages of the repository that the application has as well. */
export function packedApp(tools: readonly string[] = []): PackedApp {
  const workplace = mkdtempSync(join(tmpdir(), 'bullmq-redlock-app-'))
  const source = join(workplace, 'source')
  // A copy is packed: packing builds, unless `npm run` has just done so, and other tests use that.
  const built = isBuilt() ? ['dist'] : []
  for (const name of [...PACKED, ...ALSO_PACKED, ...built]) {
    cpSync(join(ROOT, name), join(source, name), { recursive: true })
  }
  symlinkSync(join(ROOT, 'node_modules'), join(source, 'node_modules'))
  const packing = ['pack', '--json', ...(built.length > 0 ? ['--ignore-scripts'] : [])]
  const packed = succeeded(runIn(source, 'npm', packing))
  const [{ filename, files }] = JSON.parse(packed.slice(packed.indexOf('['))) as [
    { readonly filename: string; readonly files: readonly { readonly path: string }[] },
  ]
  const app = join(workplace, 'app')
  mkdirSync(app)
  writeFileSync(join(app, 'package.json'), '{ "name": "app", "private": true, "type": "module" }\n')
  const packages = ['bullmq', 'ioredis', ...tools].map(locked)
  succeeded(runIn(app, 'npm', [...FLAGS, join(source, filename), ...packages]))
  return {
    tarball: files.map(({ path }) => path),
    path: (...parts) => join(app, ...parts),
    run: (program, args) => runIn(app, program, args),
    remove: () => {
      rmSync(workplace, { recursive: true, force: true })
    },
  }
}

function runIn(cwd: string, program: string, args: readonly string[]): SpawnSyncReturns<string> {
  return spawnSync(program, args, { cwd, encoding: 'utf8', timeout: 240_000 })
}

export function succeeded(said: SpawnSyncReturns<string>): string {
  if (said.status !== 0) throw new Error(said.stdout + said.stderr)
  return said.stdout
}

/** Every block of a page that names its file in the first line. */
export function examplesOf(page: string): ReadonlyMap<string, string> {
  const text = readFileSync(join(ROOT, page), 'utf8')
  const blocks = text.matchAll(/^```(?:ts|js)\n(\/\/ (\S+\.m?[tj]s)\n[^]*?)^```$/gm)
  return new Map([...blocks].map(([, code = '', name = '']) => [name, code]))
}

/** Versions of the lock file, so that a release of tomorrow does not fail a test. */
function locked(name: string): string {
  const lock = readFileSync(join(ROOT, 'package-lock.json'), 'utf8')
  const { packages } = JSON.parse(lock) as { packages: Record<string, { version: string }> }
  return `${name}@${packages[`node_modules/${name}`]?.version ?? ''}`
}
