/**
 * Commands that were on their way when the connection broke: not sent again, and not left without
 * an end.
 */
import { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startServer, type TestServer } from '../../../src/testing/index.ts'
import { watchLeaks } from '../../support/leaks.ts'
import { startProxy } from '../../support/proxy.ts'
import {
  connection,
  event,
  follow,
  IOREDIS_DEFAULTS,
  readyAgain,
  type Fate,
  type Overrides,
} from './connection.ts'

const leaks = watchLeaks()
let server: TestServer
let watcher: Redis

beforeAll(async () => {
  server = await startServer()
  watcher = new Redis(server.url)
})

afterAll(async () => {
  watcher.disconnect()
  await server.close()
  await leaks.assertNone()
})

/** An INCR that the server runs and whose reply is lost with the connection. */
async function incrWithoutReply(set: Overrides): Promise<{ fate: Fate; runs: string | null }> {
  await watcher.flushall()
  await using proxy = await startProxy(server.port)
  await using opened = await connection(proxy.port, set)
  const { redis } = opened
  const hold = proxy.holdReplies()
  const fate = follow(redis.incr('runs'))
  await hold.held
  expect(await watcher.get('runs')).toBe('1')
  const closed = event(redis, 'close')
  hold.lose()
  await closed
  await readyAgain(redis)
  expect(proxy.counters.replies.lost).toBeGreaterThan(0)
  return { fate: { ...fate }, runs: await watcher.get('runs') }
}

it('runs a command once and rejects it when its connection breaks', async () => {
  expect(await incrWithoutReply({})).toEqual({ fate: { state: 'rejected' }, runs: '1' })
})

it("… where ioredis by itself sends it again without its caller's knowledge", async () => {
  expect(await incrWithoutReply(IOREDIS_DEFAULTS)).toEqual({
    fate: { state: 'resolved' },
    runs: '2',
  })
})

it('… and, with retries off, never settles its promise', async () => {
  const set = { ...IOREDIS_DEFAULTS, autoResendUnfulfilledCommands: false }
  expect(await incrWithoutReply(set)).toEqual({ fate: { state: 'pending' }, runs: '1' })
})
