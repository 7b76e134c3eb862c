/** Contenders that defeat each other. */
import { afterAll, expect, it } from 'vitest'
import { SplitVoteError } from '../../src/index.ts'
import { watchLeaks } from '../support/leaks.ts'
import { until, useFleet } from '../fixtures.ts'
import { item, Harness } from './harness.ts'

const leaks = watchLeaks()
afterAll(() => leaks.assertNone())
const fixture = useFleet({ masters: 5, queue: false })

it('E1: a split vote does not block its own retries (node-redlock and its forks do)', async () => {
  await using harness = await Harness.open(fixture.fleet)
  const redlock = await harness.client({ leaseMs: 8_000 })
  await item(harness.proxies, 4).refuse()
  await until('one master is down', () => item(redlock.status().masters, 4).state === 'connecting')
  await harness.occupy('r', [0, 1], 60_000)
  const first = await redlock.tryAcquire('r')
  expect(first.status).toBe('split')
  await harness.occupy('r', [0, 1], 250)
  // Half of the lease: keys that the failed attempts left behind would outlast this.
  await using lease = await redlock.acquire('r', { waitMs: 4_000 })
  expect(lease.remainingMs()).toBeGreaterThan(0)
  // No attempt left a key behind: the two that nobody else held have the lease, and no other key is
  // ours.
  await until('both that were free have it', async () => {
    const [, , third, fourth] = await harness.holders('r')
    return third === lease.token && fourth === lease.token
  })
  const others = (await harness.holders('r')).slice(0, 2).filter((holder) => holder !== lease.token)
  expect(others.length).toBeLessThan(2)
  expect(others.filter((holder) => holder !== null && holder !== 'foreign@elsewhere')).toEqual([])
})

it('E3: one vote for and one against of two masters is an answer (node-redlock never settles)', async () => {
  await using harness = await Harness.open(fixture.fleet, { masters: 2 })
  const redlock = await harness.client()
  await harness.occupy('r', [0], 60_000)
  const outcome = await redlock.tryAcquire('r')
  expect(outcome.status).toBe('split')
  await expect(redlock.acquire('r', { waitMs: 300 })).rejects.toThrow(SplitVoteError)
  await until('nothing is left on the other', async () => (await harness.holders('r'))[1] === null)
  await harness.forget('r', [0])
  await using lease = await redlock.acquire('r')
  expect(await harness.holders('r')).toEqual([lease.token, lease.token])
})
