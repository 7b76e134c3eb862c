/**
 * Commands that were on their way when the connection broke: not sent again, and not left without
 * an end. Those for a server that is away fail now. Queued, as ioredis does by itself, they would
 * take a lock for nobody.
 */
import { Redis } from 'ioredis'
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { startServer, type TestServer } from '../../../src/testing/index.ts'
import { assertNoLeaks } from '../../support/leaks.ts'
import { startProxy } from '../../support/proxy.ts'
import { connection, event, follow, opening, readyAgain } from './connection.ts'

assertNoLeaks()
let server: TestServer
let watcher: Redis

beforeAll(async () => {
  server = await startServer()
  watcher = new Redis(server.url)
})

beforeEach(() => watcher.flushall())

afterAll(async () => {
  watcher.disconnect()
  await server.close()
})

it('runs a command once and rejects it when its connection breaks', async () => {
  await using proxy = await startProxy(server.port)
  await using opened = await connection(proxy.port)
  const hold = proxy.holdReplies()
  const fate = follow(opened.redis.incr('runs'))
  await hold.held
  expect(await watcher.get('runs')).toBe('1')
  const closed = event(opened.redis, 'close')
  hold.lose()
  await closed
  await readyAgain(opened.redis)
  expect(proxy.counters.replies.lost).toBeGreaterThan(0)
  expect(fate()).toBe('rejected')
  expect(await watcher.get('runs')).toBe('1')
})

it('does not send a command later that was called while the server was away', async () => {
  await using proxy = await startProxy(server.port)
  await using opened = await connection(proxy.port)
  const closed = event(opened.redis, 'close')
  proxy.reset()
  await closed
  const fate = follow(opened.redis.set('lock', 'ghost', 'PX', 60_000))
  await new Promise(setImmediate)
  expect(fate()).toBe('rejected')
  await readyAgain(opened.redis)
  expect(proxy.counters.resets).toBe(1)
  expect(await watcher.get('lock')).toBeNull()
})

it('rejects a first command before the connection is ready, and does not queue it', async () => {
  await using opened = opening(server.port)
  const fate = follow(opened.redis.get('lock'))
  await new Promise(setImmediate)
  expect(fate()).toBe('rejected')
  await readyAgain(opened.redis)
})

it('fails a command for a dead server at once, where ioredis continues to try', async () => {
  await using proxy = await startProxy(server.port)
  await using opened = await connection(proxy.port)
  const reconnecting = event(opened.redis, 'reconnecting')
  await proxy.refuse()
  await reconnecting
  const fate = follow(opened.redis.get('lock'))
  for (let attempts = 0; attempts < 3; attempts += 1) await event(opened.redis, 'reconnecting')
  expect(fate()).toBe('rejected')
  await proxy.pass()
  await readyAgain(opened.redis)
})
