import { expect, test } from 'vitest'
import { LeaseLostError } from '../../src/lock-errors.ts'
import { SmallWorld } from './small-world.ts'

const LEASE_MS = 1_000

// The masters extended in time, and the replies are read first when the process goes on: only the
// clock knows that it is late.
test.each([1, 2, 3, 4, 5, 6, 7, 8])(
  'a lease whose extension is answered after the old trust is over stays lost (seed %i)',
  async (seed) => {
    const world = new SmallWorld(seed, 3)
    const { redlock, clock } = await world.ready('a')
    const lease = await world.settle(redlock.acquire('r', { leaseMs: LEASE_MS }))
    await world.pass(0.9 * LEASE_MS)
    const extending = lease.extend()
    const outcome = expect(extending).rejects.toThrow(LeaseLostError)
    clock.pause()
    await world.pass(0.4 * LEASE_MS)
    const extended = world.masters.map(({ replies }) => replies.get('extend:extended'))
    expect(extended).toEqual([1, 1, 1])
    clock.wake()
    await world.settle(outcome)
    expect(lease.remainingMs()).toBe(0)
    expect(lease.signal.aborted).toBe(true)
    await world.settle(redlock.close())
  },
)
