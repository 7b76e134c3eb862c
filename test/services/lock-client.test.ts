/** What every lock service does with the answers of its driver. */
import { setTimeout as delay } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { systemClock, type Clock } from '../../src/clock.ts'
import { LockClient } from '../../src/services/lock-client.ts'
import { lockSettings, type LockOptions } from '../../src/services/service-settings.ts'
import type { ClaimOutcome, LockDriver } from '../../src/services/lock-driver.ts'
import { RedlockClosedError, silentLogger } from '../../src/index.ts'
import { until, useClosers } from '../fixtures.ts'

const closers = useClosers()

function open(driver: Partial<LockDriver>, options: LockOptions = {}): LockClient {
  const whole: LockDriver = {
    name: 'a service',
    ready: () => Promise.resolve(),
    acquire: () => Promise.resolve({ status: 'split', resource: 'a' }),
    extend: () => Promise.resolve('gone'),
    release: () => Promise.resolve(),
    abandon: () => Promise.resolve(),
    inspect: (resource) => Promise.resolve({ resource, masters: [] }),
    close: () => Promise.resolve(),
    ...driver,
  }
  const given = { leaseMs: 1_000, requestTimeoutMs: 50, logger: silentLogger, ...options }
  return closers.closing(new LockClient(lockSettings(given, {}), whole))
}

test('an attempt that fails behind its deadline is abandoned again', async () => {
  const abandoned: string[] = []
  let fail: (error: Error) => void = () => undefined
  const locks = open({
    acquire: () =>
      new Promise<ClaimOutcome<never>>((_, reject) => {
        fail = reject
      }),
    abandon: ({ token }) => Promise.resolve(void abandoned.push(token)),
  })
  expect((await locks.tryAcquire('a')).status).toBe('unreachable')
  expect(abandoned).toHaveLength(1)
  fail(new Error('CONNECTION_LOSS'))
  await until('it is abandoned again', () => abandoned.length === 2)
  expect(new Set(abandoned).size).toBe(1)
})

test('while an attempt goes on, it is abandoned once: a server that is slow is asked no more', async () => {
  const leaseMs = 200
  let abandoned = 0
  let fail: (error: Error) => void = () => undefined
  const locks = open(
    {
      acquire: () => new Promise<ClaimOutcome<never>>((_, reject) => (fail = reject)),
      abandon: () => Promise.reject(new Error(`refused ${abandoned++}`)),
    },
    { leaseMs },
  )
  expect((await locks.tryAcquire('a')).status).toBe('unreachable')
  await delay(2 * leaseMs)
  expect(abandoned).toBe(1)
  fail(new Error('CONNECTION_LOSS'))
  await until('it is abandoned again and again', () => abandoned > 3)
})

test.each(['with announcements', 'without'])('a close wakes its waiters, %s', async (how) => {
  let attempts = 0
  // A waiter does not look again by itself.
  const clock: Clock = { ...systemClock, after: () => ({ cancel: () => undefined }) }
  const stop = (): void => undefined
  const locks = open(
    {
      acquire() {
        attempts++
        const taken = { status: 'taken', resource: 'a', holder: 'b', retryAfterMs: 60_000 } as const
        return Promise.resolve(taken)
      },
      ...(how === 'with announcements' && { listen: () => ({ stop }) }),
    },
    { clock },
  )
  const refused = expect(locks.acquire('a', { waitMs: 60_000 })).rejects.toThrow(RedlockClosedError)
  await until('it waits', () => attempts > 0)
  await locks.close()
  await refused
})

test('a bad option is named, also where another one depends on it, and after the close', async () => {
  const locks = open({})
  for (const how of ['open', 'closed']) {
    if (how === 'closed') await locks.close()
    await expect(locks.acquire('a', { leaseMs: 0.5 })).rejects.toThrow(/^Expected `leaseMs`/)
    await expect(locks.acquire('a', { waitMs: -1 })).rejects.toThrow(/^Expected `waitMs`/)
    await expect(locks.tryAcquire('a', { leaseMs: 1 })).rejects.toThrow(/^Expected `leaseMs`/)
  }
})

test('what is asked while its client closes rejects with that, whatever the server says', async () => {
  const failures: ((error: Error) => void)[] = []
  const hangs = (): Promise<never> => new Promise((_, reject) => failures.push(reject))
  const limits = { requestTimeoutMs: 5_000, leaseMs: 5_000 }
  const locks = open({ ready: hangs, acquire: hangs, inspect: hangs }, limits)
  const calls = [locks.ready(), locks.tryAcquire('a'), locks.inspect('a')].map((call) =>
    expect(call).rejects.toThrow(RedlockClosedError),
  )
  await until('they are asked', () => failures.length === calls.length)
  const closed = locks.close()
  for (const fail of failures) fail(new Error('the connection was closed'))
  await Promise.all([...calls, closed])
})

test('one resource is inspected, and no list', async () => {
  const list: unknown = ['a', 'b']
  await expect(open({}).inspect(list as string)).rejects.toThrow(/^Expected `resource`/)
})
