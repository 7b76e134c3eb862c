import { expect, test } from 'vitest'
import { LeaseLostError } from '../../src/errors.ts'
import { SmallWorld } from './small-world.ts'

// Two of three have forgotten it, and may have let somebody else in since: what they would be given back is not ours any more.
test.each([1, 2, 3])(
  'a lease that no quorum extended is given back to no master (seed %i)',
  async (seed) => {
    const world = new SmallWorld(seed, 3)
    const { redlock } = world.client('a')
    await world.settle(redlock.ready())
    const lease = await world.settle(redlock.acquire('r'))
    await world.pass(100)
    expect(world.leaseKeys()).toHaveLength(3)
    for (const { memory } of world.masters.slice(0, 2)) {
      for (const key of memory.keys()) if (key.includes(':lease:')) memory.delete(key)
    }
    await world.settle(expect(lease.extend()).rejects.toThrow(LeaseLostError))
    await world.pass(100)
    expect(world.leaseKeys()).toEqual(['master-3 r'])
    await world.settle(redlock.close())
  },
)

test.each([1, 2, 3])(
  'a lease that a quorum extended is given back to the master that forgot it (seed %i)',
  async (seed) => {
    const world = new SmallWorld(seed, 3)
    const { redlock } = world.client('a')
    await world.settle(redlock.ready())
    const lease = await world.settle(redlock.acquire('r'))
    await world.pass(100)
    const memory = world.masters[0]?.memory
    for (const key of memory?.keys() ?? []) if (key.includes(':lease:')) memory?.delete(key)
    await world.settle(lease.extend())
    await world.pass(100)
    expect(world.leaseKeys()).toHaveLength(3)
    await world.settle(redlock.close())
  },
)
