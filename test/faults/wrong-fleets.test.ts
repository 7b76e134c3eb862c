/**
 * Matrix row 11: masters that are reachable and must not be used. The client says which one, why,
 * and what to do.
 */
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import { Redis } from 'ioredis'
import { MasterRefusedError, Redlock, silentLogger } from '../../src/index.ts'
import { startFleet, type Fleet } from '../../src/testing/index.ts'
import { watchLeaks } from '../support/leaks.ts'
import { startProxy } from '../support/proxy.ts'
import { item } from './harness.ts'

const leaks = watchLeaks()
let fleet: Fleet
let first: Redis
let runs = 0

beforeAll(async () => {
  fleet = await startFleet({ masters: 3, queue: false })
  first = new Redis(item(fleet.urls, 0))
})

afterEach(async () => {
  await first.replicaof('NO', 'ONE')
  await first.config('SET', 'maxmemory-policy', 'noeviction')
})

afterAll(async () => {
  first.disconnect()
  await fleet.close()
  await leaks.assertNone()
})

function redlockOn(masters: readonly string[], maxLeaseMs = 1_000): Redlock {
  const namespace = `wrong-${process.pid}-${runs}`
  return new Redlock({ masters, namespace, leaseMs: 500, maxLeaseMs, logger: silentLogger })
}

/** Also nobody gets a lease by not asking whether it is ready. */
async function expectRefused(redlock: Redlock, problem: RegExp): Promise<void> {
  const error = await redlock.ready().then(
    () => undefined,
    (reason: unknown) => reason,
  )
  expect(error).toBeInstanceOf(MasterRefusedError)
  expect(String(error)).toMatch(problem)
}

it('one server at two addresses', async () => {
  runs += 1
  await using proxy = await startProxy(item(fleet.masters, 0).port)
  await using redlock = redlockOn([item(fleet.urls, 0), item(fleet.urls, 1), proxy.url])
  await expectRefused(redlock, /is the same server as/)
  expect(proxy.counters.connections).toBeGreaterThan(0)
  await redlock.close()
})

it('two swapped addresses change nothing: a server is known by its id', async () => {
  runs += 1
  await using redlock = redlockOn(fleet.urls)
  await redlock.bootstrap({ newFleet: true })
  await using lease = await redlock.acquire('r')
  await using swapped = redlockOn([...fleet.urls].reverse())
  await swapped.ready()
  expect((await swapped.tryAcquire('r')).status).toBe('taken')
  expect(lease.remainingMs()).toBeGreaterThan(0)
})

it("a maxLeaseMs that differs from the fleet's", async () => {
  runs += 1
  await using founder = redlockOn(fleet.urls)
  await founder.bootstrap({ newFleet: true })
  await using other = redlockOn(fleet.urls, 2_000)
  await expectRefused(other, /maxLeaseMs.* is 1000, this client's is 2000/)
  expect((await other.tryAcquire('r')).status).toBe('unreachable')
})

/** One of three: the others are a quorum, and it is named. */
async function expectRefusedAlone(problem: RegExp): Promise<void> {
  await using redlock = redlockOn(fleet.urls)
  const { masters } = await redlock.ready()
  const refused = masters.filter(({ state }) => state !== 'quarantined')
  expect(refused).toHaveLength(1)
  expect(refused[0]?.reason).toMatch(problem)
}

it('a server that evicts', async () => {
  runs += 1
  await first.config('SET', 'maxmemory-policy', 'allkeys-lru')
  await expectRefusedAlone(/may evict leases/)
})

it('a replica', async () => {
  runs += 1
  await first.replicaof('127.0.0.1', item(fleet.masters, 1).port)
  await expectRefusedAlone(/is a replica/)
})
