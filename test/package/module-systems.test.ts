/**
 * Small applications of every kind load the package from its tarball: by `import` and `require`,
 * with each `moduleResolution` of TypeScript, under Jest, and in one file of a bundler.
 */
import { cpSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { build } from 'esbuild'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { packedApp, succeeded, type PackedApp } from '../stories/packed-app.ts'

const TOOLS = ['jest@30', 'typescript5@npm:typescript@5.9', 'typescript6@npm:typescript@6.0']

let app: PackedApp
beforeAll(() => {
  app = packedApp(['@types/node'])
  succeeded(app.run('npm', ['install', '--no-audit', '--no-fund', '--ignore-scripts', ...TOOLS]))
}, 240_000)
afterAll(() => {
  app.remove()
})

/** A folder of the application with a package.json of its own. */
function project(
  name: string,
  type: 'module' | 'commonjs',
  files: Readonly<Record<string, string>>,
): string {
  const folder = app.path(name)
  mkdirSync(folder)
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ name, type }))
  for (const [file, text] of Object.entries(files)) writeFileSync(join(folder, file), text)
  return folder
}

/** Every entry that needs no client of another lock service, and what each exports. */
const APPLICATION = `
import { Queue, Worker } from 'bullmq'
import { LockedQueue, LockedWorker, Redlock, ResourceTakenError, type Lease } from 'bullmq-redlock'
import { LockedQueue as LightQueue, RedlockError } from 'bullmq-redlock/queue'
import { dashboardHandler } from 'bullmq-redlock/dashboard'
import { startFleet } from 'bullmq-redlock/testing'
import { EtcdLocks } from 'bullmq-redlock/etcd'
import { fencedRedis } from 'bullmq-redlock/fenced'
import { PostgresLocks } from 'bullmq-redlock/postgres'

const light: typeof LockedQueue = LightQueue
export const tokenOf = (lease: Lease): number => lease.fencingToken
const worker: typeof Worker.prototype = LockedWorker.prototype
const error: RedlockError = new ResourceTakenError('a', 'b', 1, [])
const entries: unknown[] = [Redlock, dashboardHandler, startFleet, EtcdLocks, fencedRedis, PostgresLocks]
console.log(
  light === LockedQueue && LockedQueue.prototype instanceof Queue && worker instanceof Worker,
  error instanceof RedlockError && error.code,
  entries.every((entry) => typeof entry === 'function'),
)
`
const EXPECTED = 'true RESOURCE_TAKEN true\n'

/** `test/stories/readme.test.ts` compiles without skipLibCheck, which takes twice as long. */
const COMMON = ['--strict', '--skipLibCheck', '--target', 'es2022', '--types', 'node']
const node10 = ['--module', 'commonjs', '--moduleResolution', 'node10']

describe.each([
  ['5', 'node10', 'commonjs', node10],
  ['6', 'node10', 'commonjs', [...node10, '--ignoreDeprecations', '6.0']],
  ...(['5', '6'] as const).flatMap((version) => [
    [version, 'node16', 'commonjs', ['--module', 'node16']] as const,
    [version, 'node16', 'module', ['--module', 'node16']] as const,
    [version, 'nodenext', 'commonjs', ['--module', 'nodenext']] as const,
    [version, 'nodenext', 'module', ['--module', 'nodenext']] as const,
    [
      version,
      'bundler',
      'module',
      ['--module', 'esnext', '--moduleResolution', 'bundler'],
    ] as const,
  ]),
] as const)('TypeScript %s, moduleResolution %s, %s', (version, resolution, type, options) => {
  it('compiles an application with strict, which runs', () => {
    const name = `ts${version}-${resolution}-${type}`
    const folder = project(name, type, { 'app.ts': APPLICATION })
    const tsc = app.path('node_modules', `typescript${version}`, 'bin', 'tsc')
    const said = app.run('node', [tsc, ...COMMON, ...options, join(folder, 'app.ts')])
    expect(said).toMatchObject({ stdout: '', status: 0 })
    expect(succeeded(app.run('node', [join(folder, 'app.js')]))).toBe(EXPECTED)
  })
})

it('the types of lock services need no types of their clients', () => {
  const text = `
    import { PostgresLocks } from 'bullmq-redlock/postgres'
    import { ZooKeeperLocks } from 'bullmq-redlock/zookeeper'
    export const names: readonly string[] = [PostgresLocks.name, ZooKeeperLocks.name]
  `
  const file = join(project('services', 'module', { 'app.ts': text }), 'app.ts')
  const options = ['--strict', '--noEmit', '--target', 'es2022', '--module', 'nodenext']
  const tsc = app.path('node_modules', 'typescript6', 'bin', 'tsc')
  const said = app.run('node', [tsc, ...options, '--types', 'node', file])
  expect(said).toMatchObject({ stdout: '', status: 0 })
})

it('require and import give one copy of every class', () => {
  const folder = project('both', 'module', {
    'app.js': `
      import { createRequire } from 'node:module'
      const require = createRequire(import.meta.url)
      for (const entry of ['bullmq-redlock', 'bullmq-redlock/queue', 'bullmq-redlock/testing']) {
        const [imported, required] = [await import(entry), require(entry)]
        for (const name of Object.keys(required)) {
          if (imported[name] !== required[name]) console.log(entry, name)
          if (/^[A-Z]/.test(name) && required[name].name !== name) console.log(name)
        }
      }
    `,
  })
  expect(succeeded(app.run('node', [join(folder, 'app.js')]))).toBe('')
})

/** It waits, tries again, and logs: what is loaded late is loaded as well. */
const USE = `
  const redlock = new Redlock({ masters: ['redis://127.0.0.1:1'] })
  const ended = redlock.acquire('customer:42', { waitMs: 300 }).catch((error) => error)
`

it('Jest runs tests in CommonJS that use it, without configuration', () => {
  const folder = project('jest', 'commonjs', {
    'locks.test.js': `
      const bullmq = require('bullmq')
      const { LockedWorker, QuorumUnreachableError, Redlock, RedlockError } = require('bullmq-redlock')
      const { startServer } = require('bullmq-redlock/testing')
      const light = require('bullmq-redlock/queue')

      test('extends the copy of bullmq that the test has', () => {
        expect(LockedWorker.prototype).toBeInstanceOf(bullmq.Worker)
        expect(light.LockedQueue.prototype).toBeInstanceOf(bullmq.Queue)
        expect(light.RedlockError).toBe(RedlockError)
      })
      test('no master answers', async () => {
        ${USE}
        expect(await ended).toBeInstanceOf(QuorumUnreachableError)
        await redlock.close()
      })
      test('a master grants a lease', async () => {
        const server = await startServer()
        const redlock = new Redlock({ masters: [server.url] })
        await redlock.bootstrap({ newFleet: true })
        const lease = await redlock.acquire('customer:42')
        expect(lease.fencingToken).toBeGreaterThan(0)
        await lease.release()
        await redlock.close()
        await server.close()
      })
    `,
  })
  const said = app.run('node', [
    app.path('node_modules', 'jest', 'bin', 'jest.js'),
    '--rootDir',
    folder,
  ])
  expect(said.stderr).toContain('Tests:       3 passed')
  expect(said.status).toBe(0)
})

describe.each(['cjs', 'esm'] as const)('one file of a bundler as %s', (format) => {
  it('has everything, also what is loaded late', async () => {
    const folder = project(`bundle-${format}`, 'module', {
      'app.js': `
        import { Redlock } from 'bullmq-redlock'
        ${USE}
        ended.then(async ({ code }) => {
          console.log(code)
          await redlock.close()
        })
      `,
    })
    const file = `app.${format === 'esm' ? 'mjs' : 'cjs'}`
    // What esbuild's documentation says about CommonJS packages in ES modules.
    const js =
      "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);"
    await build({
      ...{ entryPoints: [join(folder, 'app.js')], outfile: join(folder, file), format },
      ...{
        bundle: true,
        platform: 'node',
        logLevel: 'error',
        banner: format === 'esm' ? { js } : {},
      },
    })
    mkdirSync(app.path('..', format))
    cpSync(join(folder, file), app.path('..', format, file)) // Away from all packages.
    const said = app.run('node', [app.path('..', format, file)])
    expect(said).toMatchObject({ stdout: 'QUORUM_UNREACHABLE\n', status: 0 })
    expect(said.stderr).toContain('"name":"bullmq-redlock"')
  })
})
