import { expect, test } from 'vitest'
import { LeaseLostError } from '../../src/lock-errors.ts'
import type { SimulatedMaster } from './simulated-master.ts'
import { SmallWorld } from './small-world.ts'

/** A lease that three masters have. */
async function heldByThree(seed: number) {
  const world = new SmallWorld(seed, 3)
  const { redlock } = await world.ready('a')
  const lease = await world.settle(redlock.acquire('r'))
  await world.pass(100)
  return { world, redlock, lease }
}

function forgetLeases({ memory }: SimulatedMaster): void {
  for (const key of memory.keys()) if (key.includes(':lease:')) memory.delete(key)
}

// Two of three have forgotten it, and may have let somebody else in since: what they would be given
// back is not ours any more.
test.each([1, 2, 3])(
  'heals no master for a lease that no quorum extended (seed %i)',
  async (seed) => {
    const { world, redlock, lease } = await heldByThree(seed)
    expect(world.leaseKeys()).toHaveLength(3)
    world.masters.slice(0, 2).forEach(forgetLeases)
    await world.settle(expect(lease.extend()).rejects.toThrow(LeaseLostError))
    await world.pass(100)
    expect(world.leaseKeys()).toEqual(['master-3 r'])
    await world.settle(redlock.close())
  },
)

test.each([1, 2, 3])(
  'heals the master that forgot a lease, once a quorum extended it (seed %i)',
  async (seed) => {
    const { world, redlock, lease } = await heldByThree(seed)
    world.masters.slice(0, 1).forEach(forgetLeases)
    await world.settle(lease.extend())
    await world.pass(100)
    expect(world.leaseKeys()).toHaveLength(3)
    const healed = world.masters.map(({ replies }) => replies.get('heal:healed') ?? 0)
    expect(healed).toEqual([1, 0, 0])
    await world.settle(redlock.close())
  },
)

// What was sent again under a lease may arrive after the lease that it was passed on to has been
// released.
test('a lease after a local hand-over knows which keys are being healed', async () => {
  let refused = 0
  for (let seed = 1; seed <= 6; seed++) refused += await healAfterTheEnd(seed, 10, true)
  expect(refused).toBeGreaterThan(0)
})

test('a heal that was not confirmed in time may still arrive', async () => {
  let refused = 0
  for (let seed = 1; seed <= 6; seed++) refused += await healAfterTheEnd(seed, 200, false)
  expect(refused).toBeGreaterThan(0)
})

/** Returns how many keys came too late. */
async function healAfterTheEnd(seed: number, waitMs: number, isPassedOn: boolean): Promise<number> {
  const world = new SmallWorld(seed, 5)
  const { redlock, links } = world.client('a')
  const [forgetful] = world.masters
  const said = (reply: string): number => forgetful?.replies.get(reply) ?? 0
  const resources = Array.from({ length: 20 }, (_, index) => `r${index}`)
  await world.settle(redlock.ready())
  const leases = await world.settle(Promise.all(resources.map((name) => redlock.acquire(name))))
  await world.pass(50)
  world.masters.slice(0, 1).forEach(forgetLeases)
  const extended = Promise.all(leases.map((lease) => lease.extend()))
  await world.time.runUntil(world.time.now + 50, () => said('extend:missing') > 0)
  links[0]?.cut('request', 1)
  await world.settle(extended)
  await world.pass(waitMs)
  for (const lease of leases) {
    if (!isPassedOn) {
      void lease.release()
      continue
    }
    const next = redlock.handOver(lease)
    expect(next?.token).toBe(lease.token)
    void next?.release()
  }
  links[0]?.mend()
  await world.pass(40)
  expect(world.leaseKeys()).toEqual([])
  await world.settle(redlock.close())
  return said('heal:abandoned')
}
