import { describe, expect, test } from 'vitest'
import { CALM, type Link, type NetworkProfile } from './simulated-network.ts'
import { SmallWorld } from './small-world.ts'

const LEASE_MS = 3_000
const MASTER_TIMEOUT_MS = 50
const SOCKET_TIMEOUT_MS = 1_000

type Links = readonly Link[]

test('a failed attempt leaves no key where it was granted but the reply was lost', async () => {
  const world = new SmallWorld(1, 5)
  const { redlock, links } = await world.ready('a', { masterTimeoutMs: MASTER_TIMEOUT_MS })
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

function tombstones({ masters }: SmallWorld): readonly string[] {
  return masters.flatMap(({ memory }) => memory.keys().filter((key) => key.includes(':tomb:')))
}

test('a lease that is released before every master has answered leaves nothing behind', async () => {
  const world = new SmallWorld(3, 5)
  const { redlock, links } = await world.ready('a', { masterTimeoutMs: MASTER_TIMEOUT_MS })
  const released = async (): Promise<void> => {
    for (const link of links.slice(0, 2)) link.cut('reply', 1)
    const outcome = await world.settle(redlock.tryAcquire('r', { leaseMs: LEASE_MS }))
    if (outcome.status !== 'granted') throw new Error(outcome.status)
    await world.settle(outcome.lease.release())
    for (const link of links) link.mend()
    await world.pass(LEASE_MS / 10)
  }
  await released()
  expect([...world.leaseKeys(), ...tombstones(world)]).toEqual([])
  expect(world.masters.map(({ replies }) => replies.get('acquire:granted'))).toEqual([
    1, 1, 1, 1, 1,
  ])
  // The same on connections that were made anew.
  for (const link of links) link.cut('reply', 0)
  await world.settle(redlock.tryAcquire('lost', { leaseMs: LEASE_MS }))
  await world.pass(1.2 * SOCKET_TIMEOUT_MS)
  for (const link of links) link.mend()
  await world.pass(5 * SOCKET_TIMEOUT_MS)
  const before = tombstones(world)
  await released()
  expect(tombstones(world)).toEqual(before)
  await world.settle(redlock.close())
})

test('a master where another token holds the resource is asked for no release', async () => {
  const world = new SmallWorld(4, 3)
  const [holder, other] = [world.client('a').redlock, world.client('b').redlock]
  await world.settle(Promise.all([holder.ready(), other.ready()]))
  const lease = await world.settle(holder.acquire('r'))
  world.masters[0]?.memory.delete('small:lease:r')
  const outcome = await world.settle(other.tryAcquire('r'))
  expect(outcome.status).toBe('taken')
  await world.pass(100)
  const released = world.masters.map(({ replies }) => replies.get('release:released') ?? 0)
  expect(released).toEqual([1, 0, 0])
  expect(world.leaseKeys()).toEqual(['master-2 r', 'master-3 r'])
  await world.settle(lease.release())
  await world.settle(Promise.all([holder.close(), other.close()]))
})

test('a lease is released where another token had the resource, and it was given back', async () => {
  const world = new SmallWorld(5, 3)
  const { redlock } = await world.ready('a')
  world.masters[0]?.memory.set('small:lease:r', 'foreign', 100)
  const outcome = await world.settle(redlock.tryAcquire('r'))
  if (outcome.status !== 'granted') throw new Error(outcome.status)
  await world.pass(200)
  await world.settle(outcome.lease.extend())
  await world.pass(100)
  expect(world.leaseKeys()).toHaveLength(3)
  await world.settle(outcome.lease.release())
  await world.pass(100)
  expect(world.leaseKeys()).toEqual([])
  await world.settle(redlock.close())
})

test('a release on another connection than its acquire refuses the late acquire', async () => {
  const world = new SmallWorld(6, 3, { ...CALM, postponeChance: 1, postponeMs: 5_000 })
  const { redlock, links } = await world.ready('a', { masterTimeoutMs: MASTER_TIMEOUT_MS })
  links[0]?.cut('request', 1)
  const outcome = await world.settle(redlock.tryAcquire('r', { leaseMs: LEASE_MS }))
  if (outcome.status !== 'granted') throw new Error(outcome.status)
  await world.pass(1.2 * SOCKET_TIMEOUT_MS)
  links[0]?.mend()
  await world.pass(500)
  expect(redlock.status().masters[0]?.state).toBe('voting')
  expect(world.masters[0]?.replies.get('acquire:granted')).toBeUndefined() // It still travels.
  await world.settle(outcome.lease.release())
  await world.pass(6_000)
  expect(world.masters[0]?.replies.get('acquire:abandoned')).toBe(1)
  await world.settle(redlock.close())
})

test('an attempt that is cut off before its release leaves nothing after an outage longer than its lease', async () => {
  const world = new SmallWorld(7, 3)
  const { redlock, links } = await world.ready('a', { masterTimeoutMs: MASTER_TIMEOUT_MS })
  for (const link of links.slice(0, 2)) link.cut('request', 1)
  // Its silence ends the connections, at a moment in which the last attempt is asked for.
  for (let ms = 0; ms < 2 * SOCKET_TIMEOUT_MS; ms += MASTER_TIMEOUT_MS) {
    await world.settle(redlock.tryAcquire(`r${ms}`, { leaseMs: LEASE_MS }))
  }
  await world.pass(LEASE_MS)
  for (const link of links) link.mend()
  await world.pass(LEASE_MS / 3)
  expect(world.leaseKeys()).toEqual([])
  await world.settle(redlock.close())
})

describe('an attempt that the masters hear of only when it is over', () => {
  const attempted = async (profile?: NetworkProfile): Promise<SmallWorld & { links: Links }> => {
    const world = new SmallWorld(2, 3, profile)
    const { redlock, links } = await world.ready('a', { masterTimeoutMs: MASTER_TIMEOUT_MS })
    for (const link of links.slice(0, 2)) link.cut('request', 1)
    const resources = Array.from({ length: 20 }, (_, index) => `r${index}`)
    const attempts = resources.map((each) => redlock.tryAcquire(each, { leaseMs: LEASE_MS }))
    const outcomes = await world.settle(Promise.all(attempts))
    expect(outcomes.filter(({ status }) => status === 'granted')).toEqual([])
    return Object.assign(world, { links })
  }
  const mended = async (world: SmallWorld & { links: Links }): Promise<readonly number[]> => {
    for (const link of world.links) link.mend()
    await world.pass(LEASE_MS / 3)
    expect(world.leaseKeys()).toEqual([])
    return world.masters.slice(0, 2).map(({ replies }) => replies.get('acquire:abandoned') ?? 0)
  }
  test('is released after its acquire where both come on one connection', async () => {
    const world = await attempted()
    await world.pass(SOCKET_TIMEOUT_MS / 2)
    expect(await mended(world)).toEqual([0, 0])
    expect(world.masters.map(({ replies }) => replies.get('acquire:granted'))).toEqual([20, 20, 20])
  })

  test('is refused where it arrives on an abandoned connection after its release', async () => {
    const world = await attempted({ ...CALM, postponeChance: 1, postponeMs: 500 })
    await world.pass(1.5 * SOCKET_TIMEOUT_MS)
    for (const refused of await mended(world)) expect(refused).toBeGreaterThan(0)
    expect(tombstones(world).length).toBeGreaterThan(0)
  })
})

test('a master that was away is asked for no release when it is back', async () => {
  const world = new SmallWorld(5, 3)
  const { redlock, links } = await world.ready('a', { masterTimeoutMs: MASTER_TIMEOUT_MS })
  const [link] = links
  link?.cut('request', 0)
  // So long that its connection is given up.
  await world.settle(redlock.tryAcquire('r', { leaseMs: LEASE_MS }))
  await world.pass(2 * SOCKET_TIMEOUT_MS + LEASE_MS)
  const [away] = redlock.status().masters
  expect(away?.state).not.toBe('voting')
  for (let index = 0; index < 20; index++) {
    const outcome = await world.settle(redlock.tryAcquire(`r${index}`, { leaseMs: LEASE_MS }))
    if (outcome.status === 'granted') await world.settle(outcome.lease.release())
  }
  link?.mend()
  await world.pass(LEASE_MS / 3)
  expect(redlock.status().masters.map(({ state }) => state)).toEqual(['voting', 'voting', 'voting'])
  expect(tombstones(world)).toEqual([])
  await world.settle(redlock.close())
})
