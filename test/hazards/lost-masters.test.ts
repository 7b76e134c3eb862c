/** Masters that are gone: a minority must not be noticed, and a majority ends the lease in time. */
import { afterAll, expect, it } from 'vitest'
import { LeaseLostError, type Lease, type Redlock } from '../../src/index.ts'
import { useFleet } from '../fixtures.ts'
import { watchLeaks } from '../support/leaks.ts'
import { abortsInTime, item, Harness } from './harness.ts'

const leaks = watchLeaks()
afterAll(() => leaks.assertNone())
const fixture = useFleet({ masters: 5, queue: false })

it('E4: a majority that stops answering ends the lease in time (published libraries: seconds late, or never)', async () => {
  await using harness = await Harness.open(fixture.fleet)
  const leaseMs = 1_500
  const holder = await harness.client({ leaseMs })
  const other = await harness.client({ leaseMs, direct: true })
  let start: (lease: Lease) => void = () => undefined
  const started = new Promise<Lease>((resolve) => {
    start = resolve
  })
  const work = holder.using('r', {}, async (lease) => {
    start(lease)
    await Promise.all(harness.proxies.slice(0, 3).map((proxy) => proxy.drop()))
    expect(await abortsInTime(lease, leaseMs / 2)).toBe(true)
    expect(lease.signal.reason).toBeInstanceOf(LeaseLostError)
    expect(lease.remainingMs()).toBe(0)
    expect(() => {
      lease.assertHeld()
    }).toThrow(LeaseLostError)
    return 'stopped'
  })
  const lost = await started
  const next = await other.acquire('r', { waitMs: 8_000 })
  expect(performance.now()).toBeGreaterThan(lost.trustedUntil)
  expect(next.fencingToken).toBeGreaterThan(lost.fencingToken)
  expect(await work).toBe('stopped')
  await next.release()
  for (const { counters } of harness.proxies.slice(0, 3)) {
    expect(counters.requests.lost).toBeGreaterThan(0)
  }
})

/**
 * Far more than a healthy round trip takes, so that waiting for the missing master would be seen.
 */
const PATIENCE_MS = 10_000

async function expectUnnoticed(redlock: Redlock): Promise<void> {
  const startedAt = performance.now()
  const lease = await redlock.acquire('r', { waitMs: 0 })
  expect((await lease.extend()).status).toBe('extended')
  await lease.release()
  const again = await redlock.acquire('r', { waitMs: 0 })
  await again.release()
  expect(performance.now() - startedAt).toBeLessThan(PATIENCE_MS / 2)
}

it('F1: does not wait for one silent master of five (redlock 4.2.0: 15 s and more)', async () => {
  await using harness = await Harness.open(fixture.fleet)
  const redlock = await harness.client({ leaseMs: 2 * PATIENCE_MS, masterTimeoutMs: PATIENCE_MS })
  const hole = item(harness.proxies, 2)
  await hole.drop()
  await expectUnnoticed(redlock)
  expect(hole.counters.requests.lost).toBeGreaterThan(0)
})

it('F2: does not wait for one of five that refuses connections (redis-semaphore: 10 s)', async () => {
  await using harness = await Harness.open(fixture.fleet)
  await item(harness.proxies, 2).refuse()
  const redlock = await harness.client({ leaseMs: 2 * PATIENCE_MS, masterTimeoutMs: PATIENCE_MS })
  expect(item(redlock.status().masters, 2).state).toBe('connecting')
  await expectUnnoticed(redlock)
})
