/** Servers that accept connections and do not answer, or answer slowly. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { connectionSettings } from '../../../src/redlock/wire/connection-settings.ts'
import { startServer, type TestServer } from '../../../src/testing/index.ts'
import { until } from '../../fixtures.ts'
import { watchLeaks } from '../../support/leaks.ts'
import { startProxy } from '../../support/proxy.ts'
import { connection, event, IOREDIS_DEFAULTS, LIMITS, opening } from './connection.ts'

const leaks = watchLeaks()
let server: TestServer

beforeAll(async () => {
  server = await startServer()
})

afterAll(async () => {
  await server.close()
  await leaks.assertNone()
})

/**
 * How many connections were made by the time that three commands in a row were lost in a black
 * hole.
 */
async function connectionsIntoBlackHole(): Promise<number> {
  await using proxy = await startProxy(server.port)
  await using opened = await connection(proxy.port)
  await proxy.drop()
  for (let tries = 0; tries < 3; tries += 1) {
    await expect(opened.redis.get('lock')).rejects.toThrow()
    if (opened.redis.status !== 'ready') break
  }
  expect(proxy.counters.requests.lost).toBeGreaterThan(0)
  await proxy.pass()
  if (opened.redis.status !== 'ready') await event(opened.redis, 'ready')
  return proxy.counters.connections
}

it('replaces a socket on which no reply comes', async () => {
  expect(await connectionsIntoBlackHole()).toBeGreaterThan(1)
})

it('… where `commandTimeout` alone continues to use it', async () => {
  const set = { ...IOREDIS_DEFAULTS, commandTimeout: LIMITS.socketTimeoutMs }
  await using proxy = await startProxy(server.port)
  await using opened = await connection(proxy.port, set)
  await proxy.drop()
  for (let tries = 0; tries < 3; tries += 1) {
    await expect(opened.redis.get('lock')).rejects.toThrow('Command timed out')
  }
  expect(proxy.counters.requests.lost).toBe(3)
  expect(proxy.counters.connections).toBe(1)
  await proxy.pass()
})

it('gets ready on a slow network, where a low `commandTimeout` is a reconnect loop', async () => {
  const slowMs = 100
  const { commandTimeout } = connectionSettings({ ...LIMITS, socketTimeoutMs: 100 })
  expect(commandTimeout).toBeGreaterThan(10 * slowMs)

  await using proxy = await startProxy(server.port)
  proxy.delay({ repliesMs: slowMs })
  {
    await using opened = opening(proxy.port)
    await event(opened.redis, 'ready')
    expect(proxy.counters.connections).toBe(1)
  }
  {
    await using opened = opening(proxy.port, { commandTimeout: slowMs / 2 })
    let ready = false
    opened.redis.once('ready', () => {
      ready = true
    })
    await until('it connects again and again', () => proxy.counters.connections >= 5)
    expect(ready).toBe(false)
  }
  expect(proxy.counters.replies.delayed).toBeGreaterThan(0)
})
