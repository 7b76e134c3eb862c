/**
 * Where settings come from, which one wins, and what is said about one that cannot be used. Pure,
 * but for files.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { UsageError } from '../../../src/tools/cli/exit-code.ts'
import { mastersOf, queueRedisOf, readSettings } from '../../../src/tools/cli/settings.ts'
import { nameOption } from '../../../src/options.ts'
import { printable } from '../../../src/tools/operator/words.ts'
import { redacted } from '../../../src/redact.ts'
import { table } from '../../../src/tools/cli/output.ts'
import { cli } from './run-cli.ts'

const directories: string[] = []
afterEach(() => {
  for (const directory of directories.splice(0)) rmSync(directory, { recursive: true })
})

function configFile(content: string): string {
  const directory = mkdtempSync(join(tmpdir(), 'bullmq-redlock-config-'))
  directories.push(directory)
  const path = join(directory, 'config.json')
  writeFileSync(path, content)
  return path
}

function refusal(run: () => unknown): string {
  try {
    run()
  } catch (error) {
    if (error instanceof UsageError) return error.message
    throw error
  }
  throw new Error('nothing was refused')
}

describe('settings', () => {
  it('defaults', () => {
    expect(readSettings({}, {})).toEqual({
      ...{ masters: [], queueRedis: undefined, namespace: 'redlock', prefix: 'bull' },
      ...{ maxLeaseMs: undefined, timeoutMs: 1_000, previousMasters: [] },
    })
  })

  it('a flag overrides the environment, and the environment the file', () => {
    const config = configFile(
      JSON.stringify({
        masters: ['redis://file:1'],
        namespace: 'file',
        prefix: 'file',
        timeoutMs: 50,
      }),
    )
    const env = {
      BULLMQ_REDLOCK_CONFIG: config,
      BULLMQ_REDLOCK_MASTERS: 'redis://env:1, redis://env:2',
      BULLMQ_REDLOCK_NAMESPACE: 'env',
      BULLMQ_REDLOCK_QUEUE: '',
    }
    expect(readSettings({ master: ['redis://flag:1'] }, env)).toMatchObject({
      ...{ masters: ['redis://flag:1'], namespace: 'env', prefix: 'file', timeoutMs: 50 },
      queueRedis: undefined,
    })
    expect(readSettings({}, env).masters).toEqual(['redis://env:1', 'redis://env:2'])
    expect(readSettings({ config }, {}).masters).toEqual(['redis://file:1'])
  })

  it('the file has settings that a URL cannot have', () => {
    const master = { host: 'lock-1', port: 6380, tls: { ca: 'PEM' } }
    const config = configFile(JSON.stringify({ masters: [master] }))
    expect(readSettings({ config }, {}).masters).toEqual([master])
  })

  it.each([
    [{ master: ['http://x'] }, {}, 'Expected --master to be a redis:// or rediss:// URL'],
    [{}, { BULLMQ_REDLOCK_MASTERS: 'lock-1' }, 'Expected BULLMQ_REDLOCK_MASTERS to be a redis://'],
    [{ master: ['redis://a', 'redis://a'] }, {}, '--master names a:6379 twice'],
    [{ queueRedis: 'x' }, {}, 'Expected --queue-redis to be'],
    [
      { timeoutMs: '0' },
      {},
      'Expected --timeout-ms to be a whole number from 10 to 60000; got "0"',
    ],
    [{ maxLeaseMs: 'ten' }, {}, 'Expected --max-lease-ms to be a whole number'],
    [{}, { BULLMQ_REDLOCK_MAX_LEASE_MS: '1.5' }, 'Expected BULLMQ_REDLOCK_MAX_LEASE_MS'],
    [{ namespace: '' }, {}, 'Expected --namespace to be a text of 1 to 256 characters'],
  ])('refuses %j %j by its name', (flags, env, message) => {
    expect(refusal(() => readSettings(flags, env))).toContain(message)
  })

  it.each([
    ['{"masters": ["redis://:geheim@lock-1",]}', 'is not JSON; write for example'],
    ['[]', 'expected an object'],
    ['{"master": []}', '`master` is not a setting; the settings are `masters`'],
    ['{"masters": []}', '`masters` in '],
    ['{"timeoutMs": "soon"}', '`timeoutMs` in '],
  ])('refuses the file %s and says what to write', (content, message) => {
    const said = refusal(() => readSettings({ config: configFile(content) }, {}))
    expect(said).toContain(message)
    expect(said).not.toContain('geheim')
  })

  // Wherever the mistake is, the password may stand beside it.
  it.each([':geheim@h', 'redis//:geheim@h', 'redis:/u:geheim@h:1', 'geheim@h:6379'])(
    'the error names the mistyped URL %s by its position and does not print it',
    (url) => {
      const env = { BULLMQ_REDLOCK_MASTERS: `redis://a,${url}` }
      const messages = [
        refusal(() => readSettings({}, env)),
        refusal(() => readSettings({ queueRedis: url }, {})),
        refusal(() => readSettings({ master: [`redis://u:geheim@a`, `redis://u:geheim@a`] }, {})),
      ]
      expect(messages[0]).toContain('number 2 of BULLMQ_REDLOCK_MASTERS')
      for (const message of messages) expect(message).not.toContain('geheim')
    },
  )

  it('a name of a megabyte is cut in the message', () => {
    const long = 'x'.repeat(1_000_000)
    expect(refusal(() => readSettings({ namespace: long }, {})).length).toBeLessThan(400)
    expect(() => nameOption('namespace', long)).toThrow(/… \(1000000 characters\)/)
    try {
      nameOption('namespace', long)
    } catch (error) {
      expect(String(error).length).toBeLessThan(400)
    }
  })

  it('says how to name what is missing', () => {
    expect(refusal(() => mastersOf(readSettings({}, {})))).toContain('--master redis://lock-1:6379')
    expect(refusal(() => queueRedisOf(readSettings({}, {})))).toContain('BULLMQ_REDLOCK_QUEUE')
    expect(refusal(() => readSettings({ config: '/nowhere' }, {}))).toContain('ENOENT')
  })

  it('a bad command line: exit code 2, and no password', async () => {
    const said = await cli(['doctor', '--master', 'redis://u:geheim@h:1/?x=1'])
    expect(said).toMatchObject({ code: 2, out: '' })
    expect(said.err).toContain('Expected --master to be a redis:// or rediss:// URL')
    expect(said.err).not.toContain('geheim')
    expect((await cli(['docter'])).code).toBe(2)
    expect((await cli(['inspect'])).code).toBe(2)
    expect((await cli([])).code).toBe(2)
    expect((await cli(['leases', '--limit', 'x', '--master', 'redis://h'])).err).toContain(
      '--limit',
    )
  })
})

describe('text', () => {
  it('removes passwords, shows control characters, keeps columns aligned', () => {
    expect(redacted('at redis://u:p@ss@h:1 and rediss://:x@y')).toBe(
      'at redis://***@h:1 and rediss://***@y',
    )
    expect(printable('a\u001b[2Jb\u202e')).toBe('a\\x1b[2Jb\\u202e')
    expect(table(['A', 'B'], [['\u001b[32mlong\u001b[39m', 'x'], ['s']])).toBe(
      'A     B\n\u001b[32mlong\u001b[39m  x\ns',
    )
  })
})
