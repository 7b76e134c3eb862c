/**
 * The README from an empty folder, as a reader follows it: the package is packed and installed, the
 * examples are compiled word for word, and they run against real servers.
 */
import { spawn, spawnSync, type SpawnSyncReturns } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { takePort } from '../../src/testing/free-port.ts'
import { startServer, type TestServer } from '../../src/testing/index.ts'
import { until } from '../fixtures.ts'
import { ask, ping } from '../support/ask.ts'
import { examplesOf, packedApp, ROOT, succeeded, type PackedApp } from './packed-app.ts'

vi.setConfig({ testTimeout: 300_000, hookTimeout: 300_000 })

const README = join(ROOT, 'README.md')
const PAGES = ['README.md', 'docs/recipes.md', 'docs/migration.md']
/** Those that need a database run in `test/docs/recipes.test.ts`. */
const examples = new Map(
  PAGES.flatMap((page) => [...examplesOf(page)]).filter(([, code]) => !code.includes("from 'pg'")),
)

let packed: PackedApp | undefined
let queue: TestServer | undefined
let master: TestServer | undefined

function made(): PackedApp {
  if (packed === undefined) throw new Error('the package is packed in beforeAll')
  return packed
}

const app = (...path: readonly string[]): string => made().path(...path)

function run(program: string, args: readonly string[]): SpawnSyncReturns<string> {
  return made().run(program, args)
}

beforeAll(async () => {
  packed = packedApp(['typescript', '@types/node'])
  for (const [name, code] of examples) writeFileSync(app(name), code)
  const [first, second] = await Promise.all([startServer(), startServer()])
  queue = first
  master = second
})

afterAll(async () => {
  await Promise.all([queue?.close(), master?.close()])
  packed?.remove()
})

it('the pages contain the examples that run here', () => {
  expect([...examples.keys()]).toEqual(['invoices.ts', 'locks.ts', 'existing-worker.ts'])
})

it('the tarball has what runs and its types, and nothing that only tests need', () => {
  for (const name of ['dist/index.js', 'dist/index.d.ts', 'dist/cli.js', 'README.md', 'LICENSE']) {
    expect(made().tarball).toContain(name)
  }
  const unwanted = made().tarball.filter((path) =>
    /^(src|test|scripts|bench|workers)\/|install|provision|\.map$/.test(path),
  )
  expect(unwanted).toEqual([])
})

let compilation: SpawnSyncReturns<string> | undefined

/** What an application imports from the package, for the types of every entry. */
const ENTRIES = ['', '/dashboard', '/testing', '/fenced', '/etcd']
const entries = ENTRIES.map((entry) => `export type * from 'bullmq-redlock${entry}'\n`).join('')

/**
 * All examples by one compiler, with strict. It writes JavaScript also where types are wrong.
 * `test/package/module-systems.test.ts` has the other ways to resolve modules.
 */
function compile(): SpawnSyncReturns<string> {
  const strict = ['--strict', '--exactOptionalPropertyTypes', '--target', 'es2022']
  const options = [...strict, '--module', 'nodenext', '--types', 'node', '--outDir', 'compiled']
  writeFileSync(app('entries.ts'), entries)
  const files = [...examples.keys(), 'entries.ts']
  return (compilation ??= run(app('node_modules', '.bin', 'tsc'), [...options, ...files]))
}

it.each([...examples.keys()])('%s compiles unchanged, with strict', (example) => {
  const { stdout } = compile()
  expect(stdout.split('\n').filter((line) => line.startsWith(example))).toEqual([])
})

it('the types have no other problem, without skipLibCheck', () => {
  expect(compile()).toMatchObject({ stdout: '', status: 0 })
})

/** Their clients are optional peers, and this app installs none. */
describe('without the clients of other lock services', () => {
  const loaded = (...names: readonly string[]): SpawnSyncReturns<string> => {
    const imports = names.map((entry) => `await import('bullmq-redlock${entry}')`)
    return run('node', [
      '--input-type=module',
      '-e',
      `${imports.join('\n')}\nconsole.log('loaded')`,
    ])
  }

  it('none is installed', () => {
    const installed = run('npm', ['ls', '--all', '--parseable']).stdout
    expect(installed).toContain('bullmq-redlock')
    expect(installed).not.toMatch(/node_modules\/(pg|node-zookeeper-client)\n/)
  })

  it('every entry that needs none loads', () => {
    const names = ['', '/etcd', '/postgres', '/fenced', '/testing', '/dashboard']
    expect(loaded(...names)).toMatchObject({ stdout: 'loaded\n', status: 0 })
  })

  it('what needs one names it', () => {
    expect(loaded('/zookeeper').stderr).toContain("Cannot find module 'node-zookeeper-client'")
    for (const [locks, client] of [
      ['postgres://db/app', 'pg'],
      ['zookeeper:host:2181', 'node-zookeeper-client'],
    ] as const) {
      const said = run('npx', ['bullmq-redlock', 'doctor', '--locks', locks])
      expect(said).toMatchObject({ status: 1 })
      expect(said.stderr).toContain(`npm install ${client}`)
    }
  })
})

it('CommonJS gets it by require', () => {
  const said = run('node', ['-p', "typeof require('bullmq-redlock').LockedWorker"])
  expect(said.stdout).toBe('function\n')
})

const SERVER = 'redis-server'
const isMissing = spawnSync(SERVER, ['--version']).error !== undefined

/** Servers that append to one file mix their data. */
it.skipIf(isMissing)(
  'the servers that it starts keep their data in different directories',
  async () => {
    const [, commands = ''] =
      /^```sh\n(# the queue[^]*?)^```$/m.exec(readFileSync(README, 'utf8')) ?? []
    const lines = commands.split('\n').filter((line) => !line.startsWith('npx'))
    const ports = await Promise.all([takePort('127.0.0.1'), takePort('127.0.0.1')])
    const urls = ports.map((port) => `redis://127.0.0.1:${port}`)
    const script = lines
      .join('\n')
      .replace('--port 6379', `--port ${ports[0]}`)
      .replace('--port 6380', `--port ${ports[1]}`)
    const child = spawn('sh', ['-c', `${script}\nwait`], { cwd: app(), detached: true })
    try {
      const directories = urls.map(async (url) => {
        await until(`${url} answers`, () => ping(url).then(Boolean, () => false), 60_000)
        return ask(url, (redis) => redis.config('GET', 'dir'))
      })
      const [queueHas, masterHas] = await Promise.all(directories)
      expect(queueHas).not.toEqual(masterHas)
    } finally {
      process.kill(-(child.pid ?? 0), 'SIGKILL')
    }
  },
)

describe('run against real servers', () => {
  const environment = (): NodeJS.ProcessEnv => ({
    ...{ PATH: process.env['PATH'], HOME: process.env['HOME'] },
    BULLMQ_REDLOCK_QUEUE: queue?.url,
    BULLMQ_REDLOCK_MASTERS: master?.url,
  })

  /** Types are no part of running, so an example with wrong types still runs here. */
  function compiled(example: string): string {
    compile()
    return app('compiled', example.replace('.ts', '.js'))
  }

  beforeAll(() => {
    const args = ['bullmq-redlock', 'bootstrap', '--master', master?.url ?? '', '--yes']
    expect(succeeded(run('npx', args))).toContain('1 of 1 master votes')
  })

  it('locks.ts takes its leases, and ends by itself', () => {
    const said = spawnSync('node', [compiled('locks.ts')], {
      ...{ cwd: app(), env: environment(), encoding: 'utf8', timeout: 60_000 },
    })
    expect(said.stderr).toBe('')
    expect(said.stdout).toMatch(
      /^token \d+, lost: false\nholds account:a and account:b\ngranted\n$/,
    )
    expect(said.status).toBe(0)
  })

  it('invoices.ts serves each customer in order, and drains on SIGTERM', async () => {
    const child = spawn('node', [compiled('invoices.ts')], { cwd: app(), env: environment() })
    let out = ''
    let err = ''
    child.stdout.on('data', (data: Buffer) => (out += data.toString()))
    child.stderr.on('data', (data: Buffer) => (err += data.toString()))
    const ended = once(child, 'close')
    try {
      await until('all mails are out', () => (out.match(/gets a mail/g) ?? []).length === 6)
      child.kill('SIGTERM')
      await ended
    } finally {
      child.kill('SIGKILL')
    }
    expect(err).toBe('')
    expect(child.exitCode).toBe(0)
    for (const customer of [42, 7]) {
      const own = [
        ...out.matchAll(new RegExp(`^customer ${customer} (pays|gets).*? (\\d+)( |$)`, 'gm')),
      ]
      expect(own.map(([, , amount]) => amount)).toEqual(['10', '10', '20', '20', '30', '30'])
      const tokens = [
        ...out.matchAll(new RegExp(`^customer ${customer} pays .* token (\\d+)$`, 'gm')),
      ]
      const numbers = tokens.map(([, token]) => Number(token))
      expect(numbers).toEqual([...numbers].sort((a, b) => a - b))
      expect(new Set(numbers).size).toBe(3)
    }
  })

  it('existing-worker.ts runs, and ends on SIGTERM', async () => {
    const child = spawn('node', [compiled('existing-worker.ts')], {
      cwd: app(),
      env: environment(),
    })
    const ended = once(child, 'close')
    const clients = (): Promise<string> =>
      ask(queue?.url ?? '', (redis) => redis.client('LIST') as Promise<string>)
    await until('it waits for jobs', async () => (await clients()).includes('cmd=bzpopmin'))
    child.kill('SIGTERM')
    await ended
    expect(child.exitCode).toBe(0)
  })
})
