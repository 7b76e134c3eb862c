import { expect, test } from 'vitest'
import { SmallWorld } from './small-world.ts'

const LEASE_MS = 3_000
const MASTER_TIMEOUT_MS = 50

test('a failed attempt leaves no key where it was granted but the reply was lost', async () => {
  const world = new SmallWorld(1, 5)
  const { redlock, links } = world.client('a', { masterTimeoutMs: MASTER_TIMEOUT_MS })
  await world.settle(redlock.ready())
  for (const link of links.slice(0, 3)) link.cut('reply', 0)
  const outcome = await world.settle(redlock.tryAcquire('r', { leaseMs: LEASE_MS }))
  expect(outcome.status).toBe('unreachable')
  expect(world.masters.map(({ replies }) => replies.get('acquire:granted'))).toEqual([
    1, 1, 1, 1, 1,
  ])
  await world.pass(LEASE_MS / 10)
  expect(world.leaseKeys()).toEqual([])
  await world.settle(redlock.close())
})

test('a grant that arrives after its release is refused', async () => {
  const world = new SmallWorld(2, 3)
  const { redlock, links } = world.client('a', { masterTimeoutMs: MASTER_TIMEOUT_MS })
  await world.settle(redlock.ready())
  // What is held arrives in any order when the links are mended: grants before and after their releases.
  for (const link of links.slice(0, 2)) link.cut('request', 1)
  const resources = Array.from({ length: 20 }, (_, index) => `r${index}`)
  const attempts = resources.map((resource) => redlock.tryAcquire(resource, { leaseMs: LEASE_MS }))
  const outcomes = await world.settle(Promise.all(attempts))
  expect(outcomes.filter(({ status }) => status === 'granted')).toEqual([])
  for (const link of links) link.mend()
  await world.pass(LEASE_MS / 10)
  expect(world.leaseKeys()).toEqual([])
  const refused = world.masters.map(({ replies }) => replies.get('acquire:abandoned') ?? 0)
  expect(Math.max(...refused)).toBeGreaterThan(0)
  await world.settle(redlock.close())
})
