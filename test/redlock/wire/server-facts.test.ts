/** What is read from a server before it may vote. */
import { Redis } from 'ioredis'
import { expect, it } from 'vitest'
import { systemClock } from '../../../src/clock.ts'
import { readServerFacts, type ServerFacts } from '../../../src/redlock/wire/server-facts.ts'
import { startServer, type ServerConfig, type TestServer } from '../../../src/testing/index.ts'
import { useClosers } from '../../fixtures.ts'
import { assertNoLeaks } from '../../support/leaks.ts'
import { hasCopied } from '../../support/has-copied.ts'

assertNoLeaks()
const { closing } = useClosers()

const start = async (config: ServerConfig = {}): Promise<TestServer> =>
  closing(await startServer({ config }))

async function facts(
  server: TestServer,
  before: (redis: Redis) => Promise<unknown> = () => Promise.resolve(),
): Promise<ServerFacts> {
  const redis = new Redis(server.url)
  try {
    await before(redis)
    return await readServerFacts(redis, systemClock)
  } finally {
    redis.disconnect()
  }
}

const STALL_MS = 500
const DURABLE = { appendonly: 'yes', appendfsync: 'always' }

it('names the process, its version, role and policy, and the distance of its clock', async () => {
  const server = await start({ 'maxmemory-policy': 'volatile-lru' })
  const startedAt = performance.now()
  const found = await facts(server)
  expect(found.runId).toMatch(/^[0-9a-f]{40}:[0-9a-f]{40}$/)
  expect(found.version).toMatch(/^\d+\.\d+\.\d+$/)
  expect(found).toMatchObject({
    role: 'master',
    maxmemoryPolicy: 'volatile-lru',
    durable: false,
  })
  expect(found.roundTripMs).toBeGreaterThan(0)
  expect(found.roundTripMs).toBeLessThan(performance.now() - startedAt)
  // The same machine: off by less than the round trip that measured it, and the wall clock's
  // millisecond.
  expect(Math.abs(found.clockOffsetMs)).toBeLessThan(found.roundTripMs + 2)

  await server.restart()
  expect((await facts(server)).runId).not.toBe(found.runId)
})

it('measures the distance of clocks right while the program is busy', async () => {
  const stalled = (redis: Redis): Promise<unknown> => {
    const time = redis.time.bind(redis)
    let asked = 0
    redis.time = () => {
      const answer = time()
      asked += 1
      const until = performance.now() + (asked === 1 ? STALL_MS : 0)
      // The command has left; nobody reads its reply meanwhile.
      setImmediate(() => {
        while (performance.now() < until) continue
      })
      return answer
    }
    return redis.ping()
  }
  const { roundTripMs } = await facts(await start(), stalled)
  expect(roundTripMs).toBeLessThan(STALL_MS)
})

it.each([
  ['nothing is written', {}, false],
  ['a second may be lost', { appendonly: 'yes', appendfsync: 'everysec' }, false],
  ['`always` without a file', { appendfsync: 'always' }, false],
  ['every write is on disk before its reply', DURABLE, true],
])('reports durable memory: %s', async (_what, config, durable) => {
  expect((await facts(await start(config))).durable).toBe(durable)
})

it('takes a server that does not show its configuration for one that may forget', async () => {
  const hidden = (redis: Redis): Promise<unknown> =>
    redis.call('ACL', 'SETUSER', 'default', '-config')
  const found = await facts(await start(DURABLE), hidden)
  expect(found.durable).toBe(false)
  expect(found.runId).toHaveLength(81)
})

it('sees a replica, and that memory which was replaced once is not its own', async () => {
  const other = await start({ 'repl-diskless-sync-delay': '0' })
  const server = await start(DURABLE)
  const replicate = async (redis: Redis): Promise<void> => {
    await redis.replicaof(other.host, other.port)
    await hasCopied(redis)
  }
  expect(await facts(server, replicate)).toMatchObject({ role: 'slave' })
  const promote = (redis: Redis): Promise<unknown> => redis.replicaof('NO', 'ONE')
  expect(await facts(server, promote)).toMatchObject({ role: 'master', durable: false })
})

it('rejects where INFO is denied, so that the server does not vote', async () => {
  const denied = (redis: Redis): Promise<unknown> =>
    redis.call('ACL', 'SETUSER', 'default', '-info')
  await expect(facts(await start(), denied)).rejects.toThrow('NOPERM')
})
