/** A lease in two cells is as good as its weaker half. */
import { expect, test } from 'vitest'
import { MovingLease } from '../../../src/redlock/cells/moving-lease.ts'
import { QuorumLease } from '../../../src/redlock/quorum-lease.ts'
import type { LeaseOptions } from '../../../src/index.ts'
import { SmallWorld } from '../../sim/small-world.ts'

const SHORT_MS = 500
const LONG_MS = 2_000

/** `from` and `to`: the options of each half. */
async function moving(from: LeaseOptions, to: LeaseOptions) {
  const world = new SmallWorld(1, 3)
  const { redlock } = world.client('a')
  await world.settle(redlock.ready())
  const [one, two] = [
    await world.settle(redlock.acquire('from', from)),
    await world.settle(redlock.acquire('to', to)),
  ]
  return { world, redlock, one, two, lease: new MovingLease(one, two) }
}

test('is trusted as long as both halves are', async () => {
  const { lease, one, two } = await moving({ leaseMs: LONG_MS }, { leaseMs: SHORT_MS })
  expect(two.remainingMs()).toBeLessThan(one.remainingMs())
  expect(lease.remainingMs()).toBe(two.remainingMs())
})

test.each([
  ['old', SHORT_MS, LONG_MS],
  ['new', LONG_MS, SHORT_MS],
])('aborts when the half in its %s cell is lost', async (_cell, from, to) => {
  const { world, lease } = await moving({ leaseMs: from }, { leaseMs: to })
  const { signal } = lease
  expect(signal.aborted).toBe(false)
  await world.pass(2 * SHORT_MS)
  expect(signal.aborted).toBe(true)
  expect(() => {
    lease.assertHeld()
  }).toThrow()
})

test('is extended only when both halves are', async () => {
  const { world, lease } = await moving({}, { maxExtensions: 0 })
  expect(await world.settle(lease.extend())).toMatchObject({ status: 'limit' })
})

test('does not raise a half whose keys are gone from a quorum to a common token', async () => {
  const { world, one } = await moving({}, {})
  if (!(one instanceof QuorumLease)) throw new Error('expected a lease on a quorum')
  const { fencingToken } = one
  for (const { memory } of world.masters.slice(0, 2)) memory.delete('small:lease:from')
  expect(await world.settle(one.raise(fencingToken + 1_000))).toBe(false)
  expect(one.fencingToken).toBe(fencingToken)
})
