/** Commands that arrive after their caller gave up must not take a lease for nobody. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startFleet, type Fleet } from '../../src/testing/index.ts'
import type { FaultProxy } from '../support/proxy.ts'
import { watchLeaks } from '../support/leaks.ts'
import { until } from '../fixtures.ts'
import { Harness } from './harness.ts'

const leaks = watchLeaks()
let fleet: Fleet

beforeAll(async () => {
  fleet = await startFleet({ masters: 5, queue: false })
})

afterAll(async () => {
  await fleet.close()
  await leaks.assertNone()
})

/** Much shorter than the lease: keys of the failed attempt would still be there. */
const LEASE_MS = 20_000
const CLEAN_LIMIT_MS = 4_000

const isFree = async (harness: Harness): Promise<boolean> =>
  (await harness.holders('r')).every((holder) => holder === null)

it('E6: a grant that lands after the deadline is undone on every master (redlock-universal: blocked for its TTL)', async () => {
  await using harness = await Harness.open(fleet)
  const redlock = await harness.client({ leaseMs: LEASE_MS, masterTimeoutMs: 50 })
  const late = harness.proxies.slice(0, 3)
  const holds = late.map((proxy) => proxy.holdRequests())

  const outcome = await redlock.tryAcquire('r')
  expect(outcome.status).toBe('unreachable')
  await Promise.all(holds.map(({ held }) => held))
  expect((await harness.counters('r')).slice(0, 3)).toEqual([null, null, null])

  for (const hold of holds) hold.release()
  // The counter outlives the lease: the grants did land, after the attempt had failed.
  await until(
    'the late grants land',
    async () => !(await harness.counters('r')).slice(0, 3).includes(null),
  )
  await until('no key of the failed attempt is left', () => isFree(harness), CLEAN_LIMIT_MS)
  const next = await (await harness.client({ direct: true })).tryAcquire('r', { leaseMs: LEASE_MS })
  expect(next.status).toBe('granted')
})

/**
 * How late the commands of a slow connection arrive: after it was replaced by another, and never in
 * this test.
 */
const OLD_SOCKET_MS = { acquire: 2_400, release: 30_000 }

/**
 * Slows the present connection down, the first command less than the next; those that replace it
 * are fast.
 */
function slowOldSocket(proxy: FaultProxy): void {
  const old = proxy.counters.connections
  let sent = 0
  proxy.delay({
    requestsMs: () => {
      if (proxy.counters.connections > old) return 0
      sent += 1
      return sent === 1 ? OLD_SOCKET_MS.acquire : OLD_SOCKET_MS.release
    },
  })
}

it('E6: a grant that arrives on an abandoned socket after its release meets a tombstone', async () => {
  await using harness = await Harness.open(fleet)
  const redlock = await harness.client({ leaseMs: LEASE_MS, masterTimeoutMs: 50 })
  const late = harness.proxies.slice(0, 3)
  for (const proxy of late) slowOldSocket(proxy)

  expect((await redlock.tryAcquire('r')).status).toBe('unreachable')
  const tombstones = async (): Promise<number> => {
    const keys = harness.masters
      .slice(0, 3)
      .map((redis) => redis.keys(`${harness.namespace}:tomb:*`))
    return (await Promise.all(keys)).flat().length
  }
  // The silent sockets are replaced, and the releases go out on the new ones.
  await until('released with a tombstone on new sockets', async () => (await tombstones()) === 3)
  expect((await harness.counters('r')).slice(0, 3)).toEqual([null, null, null])
  const before = late.map((proxy) => proxy.counters.requests.bytes)
  await until('the commands of the old sockets arrive', () =>
    late.every((proxy, index) => proxy.counters.requests.bytes > (before[index] ?? 0)),
  )
  for (let round = 0; round < 20; round += 1) expect(await isFree(harness)).toBe(true)
  expect((await harness.counters('r')).slice(0, 3)).toEqual([null, null, null])
  const next = await (await harness.client({ direct: true })).tryAcquire('r', { leaseMs: LEASE_MS })
  expect(next.status).toBe('granted')
  // Ends the old connections, whose last command is still on its way.
  for (const proxy of late) proxy.reset()
})

it('E7: sends no late command to a master that was away (ioredis alone takes a ghost lock)', async () => {
  await using harness = await Harness.open(fleet)
  const redlock = await harness.client({ leaseMs: LEASE_MS })
  const away = harness.proxies.slice(0, 3)
  await Promise.all(away.map((proxy) => proxy.refuse()))
  const states = (): readonly string[] => redlock.status().masters.map(({ state }) => state)
  await until('three away', () => states().filter((state) => state === 'connecting').length === 3)
  // Once while they are away, and once when they come back and the connections do not know it yet.
  expect((await redlock.tryAcquire('r')).status).toBe('unreachable')
  await Promise.all(away.map((proxy) => proxy.pass()))
  expect((await redlock.tryAcquire('r')).status).toBe('unreachable')
  await until('all five are back', () => states().every((state) => state === 'voting'))

  for (let round = 0; round < 20; round += 1) expect(await isFree(harness)).toBe(true)
  expect((await harness.counters('r')).slice(0, 3)).toEqual([null, null, null])
  const next = await redlock.tryAcquire('r')
  expect(next.status).toBe('granted')
})
