import { expect, test } from 'vitest'
import type { Lease } from '../../src/lock/lease.ts'
import type { AcquireOutcome } from '../../src/lock/outcome.ts'
import { SmallWorld } from './small-world.ts'

function item<Item>(items: readonly Item[], index: number): Item {
  const found = items[index]
  if (found === undefined) throw new Error(`There is no item ${index}`)
  return found
}

function leaseOf(outcome: AcquireOutcome): Lease {
  if (outcome.status !== 'granted') throw new Error(`Expected a lease, got \`${outcome.status}\``)
  return outcome.lease
}

/**
 * Found by the exhaustive model with a clock, two extensions and one memory loss. A master grants
 * to b, forgets it, is healed by a, and would then be in the quorums of both: in b's by the grant
 * it forgot, in a's by the healed key.
 */
test('a master that forgot a grant does not vote for the extension of another lease', async () => {
  const world = new SmallWorld(3, 3)
  const slow = { masterTimeoutMs: 500 }
  const a = world.client('a', slow)
  const b = world.client('b', slow)
  await world.settle(Promise.all([a.redlock.ready(), b.redlock.ready()]))

  // a holds masters 1 and 2; its command for 3 is lost.
  item(a.links, 2).cut('request', 0)
  const leaseA = leaseOf(await world.settle(a.redlock.tryAcquire('r', { leaseMs: 200 })))
  const startedAt = world.time.now
  // b gets master 3; its command for 1 is lost and the one for 2 takes long.
  item(b.links, 0).cut('request', 0)
  item(b.links, 1).cut('request', 1)
  const attemptB = b.redlock.tryAcquire('r', { leaseMs: 3_000 })
  await world.pass(5)
  item(world.masters, 2).crash()
  item(world.masters, 2).restart('nothing')
  item(a.links, 2).mend()
  await world.pass(100)

  expect((await world.settle(leaseA.extend())).status).toBe('extended') // On 1 and 2; heals 3.
  const lastOnMaster2 = world.time.now
  await world.pass(190)
  item(a.links, 1).cut('request', 0)
  const second = await world.settle(leaseA.extend().catch(() => undefined)) // On 1, and 3?
  await world.time.runUntil(lastOnMaster2 + 203)
  item(b.links, 1).mend()
  const leaseB = leaseOf(await world.settle(attemptB))
  expect(world.time.now - startedAt).toBeLessThan(500)
  const trusted = [leaseA.remainingMs() > 0, leaseB.remainingMs() > 0]
  expect({ second: second?.status, trusted }).not.toEqual({
    second: 'extended',
    trusted: [true, true],
  })
  expect(trusted).not.toEqual([true, true])
  const closed = Promise.all([a.redlock.close(), b.redlock.close()])
  await world.settle(closed)
})
