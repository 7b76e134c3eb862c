/**
 * Commands that were on their way when the connection broke: not sent again, and not left without
 * an end. Those for a server that is away fail now. Queued, they would take a lock for nobody.
 */
import { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { connectionSettings } from '../../../src/redlock/wire/connection-settings.ts'
import { startServer, type TestServer } from '../../../src/testing/index.ts'
import { watchLeaks } from '../../support/leaks.ts'
import { startProxy } from '../../support/proxy.ts'
import {
  connection,
  event,
  follow,
  IOREDIS_DEFAULTS,
  LIMITS,
  opening,
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

/**
 * A SET that is asked for between two connections. Returns what the server has when the second one
 * is ready.
 */
async function setWhileAway(set: Overrides): Promise<{ fate: Fate; stored: string | null }> {
  await watcher.flushall()
  await using proxy = await startProxy(server.port)
  await using opened = await connection(proxy.port, set)
  const { redis } = opened
  const closed = event(redis, 'close')
  proxy.reset()
  await closed
  const fate = follow(redis.set('lock', 'ghost', 'PX', 60_000))
  await new Promise(setImmediate)
  const atOnce = { ...fate }
  await readyAgain(redis)
  expect(proxy.counters.resets).toBe(1)
  return { fate: atOnce, stored: await watcher.get('lock') }
}

it('does not send a command later that was called while the server was away', async () => {
  expect(await setWhileAway({})).toEqual({ fate: { state: 'rejected' }, stored: null })
})

it('… which ioredis does by itself: a lock for a caller that may be gone', async () => {
  expect(await setWhileAway({ enableOfflineQueue: true })).toEqual({
    fate: { state: 'pending' },
    stored: 'ghost',
  })
})

it('turns the queue off by the name that works: `offlineQueue` is accepted and does nothing', async () => {
  expect(connectionSettings(LIMITS)).toHaveProperty('enableOfflineQueue', false)
  const misspelt = { enableOfflineQueue: true, offlineQueue: false }
  expect((await setWhileAway(misspelt)).stored).toBe('ghost')
})

/** A command before the connection is ready for the first time. */
async function firstCommand(set: Overrides): Promise<Fate> {
  await using opened = opening(server.port, set)
  const fate = follow(opened.redis.get('lock'))
  await new Promise(setImmediate)
  const atOnce = { ...fate }
  await readyAgain(opened.redis)
  return atOnce
}

it('rejects a first command before the connection is ready, and does not queue it', async () => {
  expect(await firstCommand({})).toEqual({ state: 'rejected' })
  expect(await firstCommand(IOREDIS_DEFAULTS)).toEqual({ state: 'pending' })
})

/** A command for a server that refuses connections, after several attempts to connect to it. */
async function toDeadServer(set: Overrides): Promise<Fate> {
  await using proxy = await startProxy(server.port)
  await using opened = await connection(proxy.port, set)
  const { redis } = opened
  const reconnecting = event(redis, 'reconnecting')
  await proxy.refuse()
  await reconnecting
  const fate = follow(redis.get('lock'))
  for (let attempts = 0; attempts < 3; attempts += 1) await event(redis, 'reconnecting')
  const later = { ...fate }
  await proxy.pass()
  await readyAgain(redis)
  return later
}

it('fails a command for a dead server at once, where ioredis continues to try', async () => {
  expect(await toDeadServer({})).toEqual({ state: 'rejected' })
  expect(await toDeadServer(IOREDIS_DEFAULTS)).toEqual({ state: 'pending' })
})
