/** `using` inside `using`: which leases it may join. */
import { expect, test } from 'vitest'
import { HeldLeases } from '../../src/lock/reentrancy.ts'
import type { Lease } from '../../src/lock/lease.ts'

const lease = { assertHeld: () => undefined, release: () => Promise.resolve() } as unknown as Lease
const service = { acquire: () => Promise.resolve(lease) }

test.each([
  [2, 1],
  [1, 2],
])('a lease on one of %i slots is not joined for %i', async (outer, inner) => {
  const held = new HeldLeases()
  const nested = held.using(service, 'gpu', { slots: outer }, () =>
    held.using(service, 'gpu', { slots: inner }, () => 'joined'),
  )
  await expect(nested).rejects.toThrow(`Expected \`slots\` to be ${outer}, as in the outer call`)
})

test('a lease on as many slots is joined', async () => {
  const held = new HeldLeases()
  let acquired = 0
  const counting = {
    acquire: () => {
      acquired++
      return service.acquire()
    },
  }
  await held.using(counting, 'gpu', { slots: 2 }, () =>
    held.using(counting, 'gpu', { slots: 2 }, () => undefined),
  )
  expect(acquired).toBe(1)
})
