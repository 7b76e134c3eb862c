/**
 * Programs that tests start as processes. They are compiled before the tests, all at once: through
 * tsx a process takes three times as long to start.
 */
import { fork, type ChildProcess, type ForkOptions } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { build, type Plugin } from 'esbuild'
import { embeddedModule } from '../../scripts/embed-files.ts'

const ROOT = join(import.meta.dirname, '..', '..')
/** Below node_modules, so that packages are found from there. */
const CACHE = join(ROOT, 'node_modules', '.cache', 'bullmq-redlock-programs-')
/** Names the folder to the processes that run tests. */
const COMPILED = 'TEST_PROGRAMS_OF_BULLMQ_REDLOCK'
/** What `npm run` starts, with a command line of its own. */
export const COMMANDS: readonly string[] = [
  ...['test/sim/main.ts', 'test/combination/main.ts', 'test/model/main.ts', 'test/soak/main.ts'],
  ...['test/model/mutants-main.ts', 'test/specification/main.ts', 'bench/safety/main.ts'],
  ...['bench/dashboard.ts', 'bench/import-time.ts', 'bench/locks/main.ts', 'workers/dev.ts'],
  ...['bench/path.ts', 'bench/services.ts'],
]
const PROGRAMS = [
  ...['src/tools/cli/main.ts', 'test/**/*-child.ts'],
  ...['workers/demo/main.ts', 'workers/demo/worker.ts', 'workers/*.ts'],
  ...COMMANDS,
]

/** Packages that are compiled into them; the others are loaded where they are needed. */
const INSIDE = ['bullmq', 'ioredis', 'commander', 'p-retry']
/** For packages that are CommonJS. */
const REQUIRE = `import { createRequire as r } from 'node:module'; const require = r(import.meta.url);`
/** Loads a package late, and would load a second copy of it. */
const LATE_REQUIRE = /\bcreateRequire\(import\.meta\.url\)\(/g

/** Returns how to remove them. */
export async function compilePrograms(): Promise<() => Promise<void>> {
  await mkdir(dirname(CACHE), { recursive: true }) // A fresh checkout has none.
  const folder = await mkdtemp(CACHE)
  await build({
    entryPoints: PROGRAMS,
    ...{ absWorkingDir: ROOT, outbase: ROOT, outdir: folder, outExtension: { '.js': '.mjs' } },
    ...{ bundle: true, splitting: true, format: 'esm', platform: 'node', target: 'node20.19' },
    ...{ banner: { js: REQUIRE }, plugins: [asInItsPlace], logLevel: 'warning' },
  })
  process.env[COMPILED] = folder
  return () => rm(folder, { recursive: true })
}

/** How node runs a program: compiled, or through tsx where nobody has compiled it. */
export function nodeArgs(program: string | URL): readonly string[] {
  const path = typeof program === 'string' ? resolve(ROOT, program) : fileURLToPath(program)
  if (!path.endsWith('.ts')) return [path]
  const { [COMPILED]: folder = '' } = process.env
  const compiled = join(folder, relative(ROOT, path).replace(/\.ts$/, '.mjs'))
  if (folder !== '' && existsSync(compiled)) return [compiled]
  return ['--import', import.meta.resolve('tsx'), path]
}

/** As `fork` does, of a TypeScript program. */
export function forkProgram(
  program: URL,
  args: readonly string[],
  options: ForkOptions = {},
): ChildProcess {
  const node = nodeArgs(program)
  return fork(node.at(-1) ?? '', args, { ...options, execArgv: node.slice(0, -1) })
}

/** A module sees the path that its source has, and the files of `src` that it reads. */
const asInItsPlace: Plugin = {
  name: 'as in its place',
  setup(bundle) {
    bundle.onResolve({ filter: /^[^./]/ }, ({ path, importer }) =>
      INSIDE.includes(path) || importer === '' || importer.includes('node_modules')
        ? undefined
        : { path, external: true },
    )
    bundle.onLoad({ filter: /\.ts$/ }, ({ path }) => {
      if (path.includes('node_modules')) return undefined
      const embedded = embeddedModule(path)
      if (embedded !== undefined) return { contents: embedded, loader: 'js' }
      const contents = readFileSync(path, 'utf8')
        .replaceAll(LATE_REQUIRE, 'require(')
        .replaceAll('import.meta.dirname', JSON.stringify(dirname(path)))
        .replaceAll('import.meta.url', JSON.stringify(pathToFileURL(path).href))
      return { contents, loader: 'ts' }
    })
  },
}
