import { expect, test } from 'vitest'
import { SmallWorld } from './small-world.ts'

const LEASE_MS = 1_000

test('a machine that was suspended hears of its loss within a third of a lease', async () => {
  const world = new SmallWorld(1, 3)
  const { redlock, clock } = await world.ready('a')
  const lease = await world.settle(redlock.acquire('r', { leaseMs: LEASE_MS }))
  const { signal } = lease
  // Its monotonic clock, and with it every timer, stands still.
  clock.suspend()
  await world.pass(2 * LEASE_MS)
  clock.wake()
  expect(lease.remainingMs()).toBe(0)
  await world.pass(0.4 * LEASE_MS)
  expect(signal.aborted).toBe(true)
  await world.settle(redlock.close())
})
