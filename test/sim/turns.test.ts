import { expect, test } from 'vitest'
import { SmallWorld } from './small-world.ts'

// A process that is busy for a few hops of its network when its turn comes must not lose it to
// whoever happens to ask then.
test.each([1, 2, 3])(
  'a released resource is reserved for the next waiter (seed %i)',
  async (seed) => {
    const world = new SmallWorld(seed, 3)
    const [holder, waiter, newcomer] = ['a', 'b', 'c'].map((name) => world.client(name))
    if (holder === undefined || waiter === undefined || newcomer === undefined) throw new Error()
    for (const { redlock } of [holder, waiter, newcomer]) await world.settle(redlock.ready())
    const lease = await world.settle(holder.redlock.acquire('r'))
    const waiting = waiter.redlock.acquire('r', { waitMs: 3_000 })
    await world.pass(50)
    waiter.clock.pause()
    await world.settle(lease.release())
    await world.pass(20)
    const outcome = await world.settle(newcomer.redlock.tryAcquire('r'))
    expect(outcome).toMatchObject({ status: 'taken' })
    waiter.clock.wake()
    expect((await world.settle(waiting)).remainingMs()).toBeGreaterThan(0)
    for (const { redlock } of [holder, waiter, newcomer]) await world.settle(redlock.close())
  },
)
