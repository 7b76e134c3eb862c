/**
 * An address with a secret in it, mistyped and misplaced in every way: no error, log line or output
 * of a command repeats the secret.
 */
import { inspect } from 'node:util'
import { Cluster } from 'ioredis'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { FencedTable } from '../../src/fenced/index.ts'
import {
  lockedProcessor,
  LockedQueue,
  LockedWorker,
  openTelemetry,
  Redlock,
  type LeasedProcessor,
  type Logger,
} from '../../src/index.ts'
import { redacted, shownValue } from '../../src/redact.ts'
import { EtcdLocks } from '../../src/services/etcd/index.ts'
import { PostgresLocks } from '../../src/services/postgres/index.ts'
import { ZooKeeperLocks } from '../../src/services/zookeeper/index.ts'
import { memoryLocks, startServer } from '../../src/testing/index.ts'
import { buildProgram } from '../../src/tools/cli/program.ts'
import { cli } from '../tools/cli/run-cli.ts'

const SECRET = 'sesame'
const HOST = '127.0.0.1:1'
/** What a hurried person may give for an address. */
const MISTYPED: readonly string[] = [
  `redis://user:${SECRET}@${HOST}`,
  `redis://${SECRET}@${HOST}`,
  `redis://${SECRET}:@${HOST}`,
  `redis://:${SECRET}@${HOST}/0`,
  `redis://:a/${SECRET}@${HOST}`,
  `redis://:a@${SECRET}@${HOST}`,
  `redis://:a?${SECRET}@${HOST}`,
  `redis://:a#${SECRET}@${HOST}`,
  `redis://:a,${SECRET}@${HOST}`,
  `redis://${HOST}?password=${SECRET}`,
  `redis://${HOST}/0?a=1&password=${SECRET}#x`,
  `redis://${HOST}?password=a@${SECRET}`,
  `redis://${HOST}#${SECRET}`,
  `redis://user:${SECRET}`,
  `redis://${HOST}/${SECRET}`,
  `http://user:${SECRET}@${HOST}`,
  `https://user:${SECRET}@${HOST}`,
  `postgres://user:${SECRET}@${HOST}/db`,
  `redis:/user:${SECRET}@${HOST}`,
  `redis//user:${SECRET}@${HOST}`,
  `redis:user:${SECRET}@${HOST}`,
  `://user:${SECRET}@${HOST}`,
  `user:${SECRET}@${HOST}`,
  `${SECRET}@${HOST}`,
  `digest:user:${SECRET}@${HOST}`,
  `${HOST}?password=${SECRET}`,
  `host=127.0.0.1 password=${SECRET}`,
  `{"host":"127.0.0.1","password":"${SECRET}"}`,
  ` redis://user:${SECRET}@${HOST}`,
  `'redis://user:${SECRET}@${HOST}'`,
]

/** The value itself, in a list, in the fields of an object, and as a name of one. */
const shapes = (text: string): readonly unknown[] => [
  ...[text, [text], [text, text], { host: text }, { url: text }, { path: text }, { [text]: 1 }],
  ...[{ password: [text] }, { host: '127.0.0.1', port: text }, { scheme: text }, { auth: text }],
]

const processor: LeasedProcessor<unknown, unknown> = () => Promise.resolve()
const connection = { host: '127.0.0.1', port: 1 }
const resource = (): string => 'r'
const named = (...names: readonly string[]): readonly string[] => names
const COMMON = named(
  ...['leaseMs', 'maxLeaseMs', 'driftFactor', 'requestTimeoutMs', 'maxHoldMs', 'maxExtensions'],
)

type Make = (options: never) => unknown

interface Maker {
  readonly make: Make
  readonly right: object
  readonly options: readonly string[]
}

const logged: string[] = []
const log = (...said: readonly unknown[]): void => {
  logged.push(
    JSON.stringify(said, (_, value: unknown) => (value instanceof Error ? String(value) : value)),
  )
}
const logger: Logger = { debug: log, info: log, warn: log, error: log }

const MAKERS: Readonly<Record<string, Maker>> = {
  Redlock: {
    make: (options) => new Redlock(options),
    right: { masters: [`redis://${HOST}`], logger },
    options: [
      ...[...COMMON, 'masters', 'masterTimeoutMs', 'connectTimeoutMs', 'fenceTtlMs'],
      ...['maxClockSkewMs', 'logger'],
    ],
  },
  EtcdLocks: {
    make: (options) => new EtcdLocks(options),
    right: { endpoints: [`http://${HOST}`], logger },
    options: [...COMMON, 'endpoints', 'tls', 'username', 'password', 'logger'],
  },
  ZooKeeperLocks: {
    make: (options) => new ZooKeeperLocks(options),
    right: { servers: HOST, logger },
    options: [...COMMON, 'servers', 'auth', 'tickMs', 'logger'],
  },
  PostgresLocks: {
    make: (options) => new PostgresLocks(options),
    right: { pool: { connect: () => undefined }, logger },
    options: [...COMMON, 'pool', 'table', 'listen', 'logger'],
  },
  LockedQueue: {
    make: (options) => new LockedQueue('q', options),
    right: { connection, resource },
    options: ['resource', 'redlock', 'slots', 'maxLineLength', 'tenant', 'logger'],
  },
  LockedWorker: {
    make: (options) => new LockedWorker('q', processor, options),
    right: { connection, resource, autorun: false },
    options: [
      ...['resource', 'redlock', 'leaseMs', 'maxHoldMs', 'maxWaitMs', 'slots', 'order', 'dedupe'],
      ...['checkpoints', 'onFailure', 'logger', 'concurrency', 'batch', 'tenant'],
    ],
  },
  lockedProcessor: {
    make: (options) => lockedProcessor(options, { resource }, processor),
    right: {},
    options: ['redlock', 'resource'],
  },
  FencedTable: {
    make: (options) => new FencedTable(options),
    right: { table: 'a', key: ['id'] },
    options: ['table', 'key', 'tokenColumn', 'dialect'],
  },
  openTelemetry: {
    make: (options) => {
      openTelemetry(options)
    },
    right: {},
    options: ['resourceClass'],
  },
  memoryLocks: { make: (options) => memoryLocks(options), right: {}, options: ['clock'] },
}

/** What a call says that goes wrong: its message, and what stands behind it. */
function saidBy(error: unknown): string {
  const { message, stack, cause } = error as Error
  return [message, stack, cause === undefined ? '' : saidBy(cause)].join('\n')
}

describe('no constructor repeats a secret:', () => {
  const written = vi.spyOn(process.stderr, 'write')
  const { stackTraceLimit } = Error
  beforeEach(() => {
    Error.stackTraceLimit = 0 // Places in files have no secret, and are slow to find.
    logged.length = 0
    written.mockClear()
  })
  afterEach(() => {
    Error.stackTraceLimit = stackTraceLimit
    expect(logged.join('\n')).not.toContain(SECRET)
    expect(JSON.stringify(written.mock.calls)).not.toContain(SECRET)
  })

  it.each(Object.keys(MAKERS))(
    '%s',
    async (name) => {
      const { make, right, options } = MAKERS[name] as Maker
      let refused = 0
      const attempt = async (given: unknown): Promise<void> => {
        try {
          // Only what is refused is looked at: what is taken would connect.
          const made = make(given as never)
          await (made as { close?: () => Promise<void> } | undefined)?.close?.()
        } catch (error) {
          refused++
          expect(saidBy(error)).not.toContain(SECRET)
        }
      }
      for (const [nr, text] of MISTYPED.entries()) {
        await attempt(text)
        await attempt({ ...right, [text]: text })
        for (const [shape, value] of shapes(text).entries()) {
          // Every option with every text, and with every shape.
          const tried = options.filter((_, option) => (nr + shape + option) % 3 === 0)
          for (const option of tried) await attempt({ ...right, [option]: value })
        }
      }
      expect(refused).toBeGreaterThan(MISTYPED.length)
    },
    60_000,
  )
})

describe('no command repeats a secret:', () => {
  const { argv } = process
  afterEach(() => {
    process.argv = argv
  })
  const say = async (args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<string> => {
    process.argv = ['node', 'bullmq-redlock', ...args]
    const { out, err } = await cli(args, { env })
    return out + err
  }
  /** Those that would be used are not mistyped. */
  const unfit = MISTYPED.filter((text) => !/^rediss?:\/\/[^?#]*@[^?#]*$/.test(text))
  const program = buildProgram()

  it.each(program.commands.map((command) => command.name()))(
    '%s',
    async (name) => {
      const command = program.commands.find((one) => one.name() === name)
      // These two would go on until they are told to stop.
      const stays = ['work', 'dashboard'].includes(name)
      const flags = (stays ? [] : (command?.options ?? [])).filter(({ required }) => required)
      for (const [index, text] of unfit.entries()) {
        // Every flag with some of them, and some of the flags with every one.
        const tried = flags.filter((_, flag) => (flag + index) % 4 === 0)
        for (const { long } of tried) {
          expect(await say([name, long ?? '', text])).not.toContain(SECRET)
          expect(await say([name, `${long ?? ''}=${text}`])).not.toContain(SECRET)
        }
        expect(await say([name, `--unknown=${text}`])).not.toContain(SECRET)
        expect(await say([name, `--json`, `--master`, text, text, text, text])).not.toContain(
          SECRET,
        )
      }
    },
    120_000,
  )

  it('no command, a wrong one, and a variable', async () => {
    for (const text of MISTYPED) {
      expect(await say([text])).not.toContain(SECRET)
      expect(await say([`--${text}`])).not.toContain(SECRET)
    }
    for (const text of unfit) {
      for (const variable of 'MASTERS LOCKS QUEUE MAX_LEASE_MS TIMEOUT_MS CONFIG'.split(' ')) {
        const env = { [`BULLMQ_REDLOCK_${variable}`]: text }
        expect(await say(['doctor'], env)).not.toContain(SECRET)
      }
    }
  })
})

it('what a queue tells of a password that is refused does not repeat it', async () => {
  const server = await startServer({ config: { requirepass: 'another' } })
  const own = new Cluster([server], { redisOptions: { password: SECRET }, lazyConnect: true })
  const connections = [{ host: server.host, port: server.port, password: SECRET }, own]
  for (const connection of connections) {
    const queue = new LockedQueue('q', { connection, prefix: '{q}', resource: () => 'r' })
    const error = await new Promise((told) => {
      queue.on('error', told)
    })
    expect(inspect(error, { depth: 9 })).toContain('WRONGPASS')
    expect(inspect(error, { depth: 9 })).not.toContain(SECRET)
    await queue.close()
  }
  own.disconnect()
  await server.close()
}, 30_000)

it('a value that is shown keeps what helps', () => {
  expect(shownValue('redis://u:p@10.0.0.1:6379/0')).toBe('redis://***@10.0.0.1:6379/0')
  expect(shownValue('http://[::1]:6379')).toBe('http://[::1]:6379')
  expect(shownValue('127.0.0.1:6379')).toBe('127.0.0.1:6379')
  expect(shownValue('10s')).toBe('10s')
})

it('a line of a log keeps names, and no part of an address that may be a secret', () => {
  expect(redacted(`see redis://u:${SECRET}@a:1, then`)).toBe('see redis://***@a:1, then')
  expect(redacted(`see redis://a:1?password=${SECRET} then`)).not.toContain(SECRET)
  expect(redacted('customer:a@example.com?')).toBe('customer:a@example.com?')
})
