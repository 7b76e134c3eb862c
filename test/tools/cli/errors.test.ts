/** What the command line says about what it was given, in the form that was asked for. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { cli, runningCli } from './run-cli.ts'

let directory = ''
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'bullmq-redlock-errors-'))
})
afterAll(() => rm(directory, { recursive: true }))

/** A worker module with this content. */
async function moduleOf(name: string, content: string): Promise<string> {
  const path = join(directory, name)
  await writeFile(path, content)
  return path
}

describe('with --json, an error of the command line is a JSON line', () => {
  it.each([
    ['unknown option', ['doctor', '--mastr', 'x', '--json'], "unknown option '--mastr'"],
    ['unknown command', ['docter', '--json'], "unknown command 'docter'"],
    ['no command', ['--json'], "unknown option '--json'"],
    ['missing argument', ['inspect', '--json'], "missing required argument 'resource'"],
    ['no name', ['inspect', '', '--json'], 'Expected `resource` to be'],
    ['a long name', ['pause', 'q', 'x'.repeat(513), '--json'], 'Expected `resource` to be'],
    ['too many', ['doctor', 'a', '--json'], 'too many arguments'],
    ['no value', ['doctor', '--json', '--timeout-ms'], 'argument missing'],
    ['a setting', ['doctor', '--json', '--timeout-ms', '0'], 'Expected --timeout-ms'],
  ])('%s: %j', async (_, args, message) => {
    const said = await cli(args)
    expect(said).toMatchObject({ code: 2, out: '' })
    expect(said.err.trimEnd().split('\n')).toHaveLength(1)
    expect(JSON.parse(said.err)).toEqual({
      ...{ event: 'error', code: 'USAGE', message: expect.stringContaining(message) as unknown },
    })
  })

  it('and a text without it', async () => {
    const said = await cli(['doctor', '--mastr', 'x'])
    expect(said.err).toBe(
      "bullmq-redlock: unknown option '--mastr'\n(Did you mean --master?)\n(see --help)\n",
    )
  })
})

describe('a misspelt variable', () => {
  it('is refused like a misspelt option', async () => {
    const env = { BULLMQ_REDLOCK_QUEU: 'redis://127.0.0.1:1' }
    const said = await cli(['limits', 'invoices'], { env })
    expect(said.code).toBe(2)
    expect(said.err).toContain('BULLMQ_REDLOCK_QUEU is not a setting; the variables are')
    expect(said.err).toContain('BULLMQ_REDLOCK_QUEUE,')
    expect(said.err).not.toContain('redis:')
  })

  it('is none where Kubernetes sets it for a service', async () => {
    const env = {
      BULLMQ_REDLOCK_SERVICE_HOST: '10.0.0.1',
      BULLMQ_REDLOCK_SERVICE_PORT_HTTP: '80',
      BULLMQ_REDLOCK_DASHBOARD_PORT: 'tcp://10.0.0.1:80',
      BULLMQ_REDLOCK_PORT_80_TCP_ADDR: '10.0.0.1',
      BULLMQ_REDLOCK_DASHBOARD_TOKEN: 'x',
    }
    expect((await cli(['doctor'], { env })).err).toContain('No lock masters are given')
  })
})

describe('a worker module that does not start', () => {
  it.each([
    ['throws', `throw new Error('no database')`, 'no database'],
    ['throws null', 'throw null', 'null'],
    ['throws undefined', 'throw undefined', 'undefined'],
    ['has a function that throws', `export default () => { throw new Error('no') }`, 'no'],
    ['has a function that rejects', 'export default () => Promise.reject()', 'undefined'],
    ['imports a missing package', `import 'nothing-of-that'`, "Cannot find package 'nothing-of-th"],
    ['imports a missing module', `import './gone.mjs'`, 'Cannot find module '],
  ])('%s: it is named, with what it said', async (name, content, message) => {
    const path = await moduleOf(`${name.replaceAll(' ', '-')}.mjs`, content)
    const said = await cli(['work', path])
    expect(said.code).toBe(1)
    expect(said.err).toContain(`bullmq-redlock: ${path} does not start: ${message}`)
    const json = await cli(['work', await moduleOf(`${name}-json.mjs`, content), '--json'])
    expect(JSON.parse(json.err)).toMatchObject({ event: 'error' })
  })

  it('asks for what the command line does not give: exit code 2', async () => {
    const path = await moduleOf('needs.mjs', 'export default ({ redlock }) => redlock')
    const said = await cli(['work', path])
    expect(said.code).toBe(2)
    expect(said.err).toContain(`${path} does not start: No lock masters are given`)
  })

  it('imports TypeScript that Node does not read: the module is named, and what to do', async () => {
    await moduleOf('inner.mts', 'export enum Kind { Some }')
    const path = await moduleOf('outer.mjs', `await import('./inner.mts')`)
    await using working = runningCli(['work', path]) // Vitest itself reads TypeScript.
    const { code, err } = await working.end()
    expect(code).toBe(2)
    expect(err.join('\n')).toMatch(new RegExp(`${path} does not start: .*--import tsx`))
  })
})

describe('a signal while a module starts', () => {
  it.each([
    ['SIGTERM', 0],
    ['SIGINT', 130],
  ] as const)('%s ends the worker with %i', async (signal, code) => {
    const content = `console.log('starts'); await new Promise((r) => setTimeout(r, 60_000))`
    const path = await moduleOf(`slow-${signal}.mjs`, content)
    await using working = runningCli(['work', path])
    await working.line(/^starts$/)
    const sentAt = performance.now()
    working.kill(signal)
    expect((await working.end()).code).toBe(code)
    expect(performance.now() - sentAt).toBeLessThan(30_000)
  })
})
