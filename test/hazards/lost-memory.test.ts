/** A master that forgot its leases must not help a second holder. */
import { expect, it, afterAll } from 'vitest'
import type { AcquireOutcome, Lease } from '../../src/index.ts'
import { startFleet } from '../../src/testing/index.ts'
import { watchLeaks } from '../support/leaks.ts'
import { until } from '../fixtures.ts'
import { item, Harness } from './harness.ts'

const leaks = watchLeaks()

afterAll(() => leaks.assertNone())

it('F6: a master that restarts empty grants nothing while the holder of 3 of 5 is trusted (every library does)', async () => {
  await using fleet = await startFleet({ masters: 5, queue: false })
  await using harness = await Harness.open(fleet, { maxLeaseMs: 3_000 })
  const holder = await harness.client({ leaseMs: 3_000 })
  await Promise.all(harness.proxies.slice(3).map((proxy) => proxy.dropRequests()))
  const lease = await holder.acquire('r', { waitMs: 0 })
  const { token } = lease
  expect(await harness.holders('r')).toEqual([token, token, token, null, null])
  for (const proxy of harness.proxies.slice(3)) {
    expect(proxy.counters.requests.lost).toBeGreaterThan(0)
  }

  const runId = async (): Promise<string | undefined> =>
    /run_id:(\w+)/.exec(await item(harness.masters, 0).info('server'))?.[1]
  const before = await runId()
  await item(fleet.masters, 0).restart()
  expect(await runId()).not.toBe(before)
  expect(await harness.holders('r')).toEqual([null, token, token, null, null])
  expect(lease.remainingMs()).toBeGreaterThan(0)

  // Two masters are free, and with the forgetful one they would be a quorum.
  const other = await harness.client({ leaseMs: 3_000, direct: true })
  expect(item(other.status().masters, 0).state).toBe('quarantined')
  const refused: AcquireOutcome[] = []
  let next: Lease | undefined
  await until('the resource is free one lease later', async () => {
    const outcome = await other.tryAcquire('r')
    if (outcome.status === 'granted') next = outcome.lease
    else refused.push(outcome)
    return next !== undefined
  })
  expect(performance.now()).toBeGreaterThan(lease.trustedUntil)
  expect(lease.remainingMs()).toBe(0)
  expect(JSON.stringify(refused)).toContain('grants nothing for another')
  expect(next?.fencingToken).toBeGreaterThan(lease.fencingToken)
})
