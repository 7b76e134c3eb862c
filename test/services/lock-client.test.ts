/** What every lock service does with the answers of its driver. */
import { expect, test } from 'vitest'
import { LockClient } from '../../src/services/lock-client.ts'
import type { ClaimOutcome, LockDriver } from '../../src/services/lock-driver.ts'
import { lockSettings } from '../../src/services/service-settings.ts'
import { silentLogger } from '../../src/index.ts'
import { until } from '../fixtures.ts'

test('an attempt that fails behind its deadline is abandoned again', async () => {
  const abandoned: string[] = []
  let fail: (error: Error) => void = () => undefined
  const driver: LockDriver = {
    name: 'a service',
    ready: () => Promise.resolve(),
    acquire: () =>
      new Promise<ClaimOutcome<never>>((_, reject) => {
        fail = reject
      }),
    extend: () => Promise.resolve('gone'),
    release: () => Promise.resolve(),
    abandon: ({ token }) => Promise.resolve(void abandoned.push(token)),
    inspect: (resource) => Promise.resolve({ resource, masters: [] }),
    close: () => Promise.resolve(),
  }
  const given = { leaseMs: 1_000, requestTimeoutMs: 50, logger: silentLogger }
  const settings = lockSettings(given, {})
  const locks = new LockClient(settings, driver)
  expect((await locks.tryAcquire('a')).status).toBe('unreachable')
  expect(abandoned).toHaveLength(1)
  fail(new Error('CONNECTION_LOSS'))
  await until('it is abandoned again', () => abandoned.length === 2)
  expect(new Set(abandoned).size).toBe(1)
  await locks.close()
})
