/** Servers that accept connections and do not answer, or answer slowly. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { Redis } from 'ioredis'
import { systemClock } from '../../../src/clock.ts'
import { batchScript } from '../../../src/redlock/wire/batch-script.ts'
import { connectionSettings } from '../../../src/redlock/wire/connection-settings.ts'
import type { MasterState } from '../../../src/redlock/wire/master.ts'
import { MasterConnection } from '../../../src/redlock/wire/master-connection.ts'
import { startServer, type TestServer } from '../../../src/testing/index.ts'
import { until } from '../../fixtures.ts'
import { assertNoLeaks } from '../../support/leaks.ts'
import { startProxy } from '../../support/proxy.ts'
import { connection, event, LIMITS, opening } from './connection.ts'

assertNoLeaks()
let server: TestServer

beforeAll(async () => {
  server = await startServer()
})

afterAll(async () => {
  await server.close()
})

it('replaces a socket on which no reply comes', async () => {
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
  expect(proxy.counters.connections).toBeGreaterThan(1)
})

it('gets ready on a slow network', async () => {
  // One that is near a round trip would be a loop of reconnections.
  const { commandTimeout } = connectionSettings({ ...LIMITS, socketTimeoutMs: 100 })
  expect(commandTimeout).toBeGreaterThan(1_000)
  await using proxy = await startProxy(server.port)
  proxy.delay({ repliesMs: 100 })
  await using opened = opening(proxy.port)
  await event(opened.redis, 'ready')
  expect(proxy.counters.connections).toBe(1)
  expect(proxy.counters.replies.delayed).toBeGreaterThan(0)
})

it('says that it reads its data, and counts when it has', async () => {
  const config = { save: '', 'loading-process-events-interval-bytes': '1024' }
  await using slow = await startServer({ config })
  const redis = new Redis(slow.url)
  for (let nr = 0; nr < 2_000; nr++) void redis.set(`key:${nr}`, 'x'.repeat(100))
  await redis.save()
  redis.disconnect()
  const states: MasterState[] = []
  const master = new MasterConnection({
    ...{ index: 0, address: slow.url, limits: LIMITS, clock: systemClock },
    ...{ script: batchScript({ namespace: 'ns' }), onTime: () => undefined },
    admit: () => Promise.resolve(undefined),
    onState: (state) => states.push(state),
  })
  const saysLoading = (): boolean =>
    states.some((state) => 'detail' in state && state.detail.startsWith('LOADING'))
  await until('it is enrolled', () => master.state.status === 'enrolled')
  await slow.kill()
  const restarted = slow.restart({ config: { 'key-load-delay': '1000' } })
  await until('it says why it is not', saysLoading)
  await restarted
  await until('it is enrolled again', () => master.state.status === 'enrolled')
  master.close()
})
