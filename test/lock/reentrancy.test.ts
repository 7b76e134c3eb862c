/** `using` inside `using`: which leases it may join. */
import { expect, test } from 'vitest'
import { HeldLeases } from '../../src/lock/reentrancy.ts'
import type { AcquireOptions } from '../../src/lock/lease-options.ts'
import type { Lease } from '../../src/lock/lease.ts'

const lease = { assertHeld: () => undefined, release: () => Promise.resolve() } as unknown as Lease
const DEFAULTS = { leaseMs: 1_000, maxLeaseMs: 2_000, maxHoldMs: 60_000, maxExtensions: 10 }
const service = { acquire: () => Promise.resolve(lease) }

test.each([
  [2, 1],
  [1, 2],
])('a lease on one of %i slots is not joined for %i', async (outer, inner) => {
  const held = new HeldLeases()
  const nested = held.using(service, DEFAULTS, 'gpu', { slots: outer }, () =>
    held.using(service, DEFAULTS, 'gpu', { slots: inner }, () => 'joined'),
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
  await held.using(counting, DEFAULTS, 'gpu', { slots: 2 }, () =>
    held.using(counting, DEFAULTS, 'gpu', { slots: 2 }, () => undefined),
  )
  expect(acquired).toBe(1)
})

test('a call that would join a lease is refused for a bad option all the same', async () => {
  const held = new HeldLeases()
  const nested = held.using(service, DEFAULTS, 'gpu', {}, () =>
    held.using(service, DEFAULTS, 'gpu', { leaseMs: 3_000 }, () => 'joined'),
  )
  await expect(nested).rejects.toThrow('`leaseMs`')
})

test('a call whose signal has aborted joins no lease', async () => {
  const held = new HeldLeases()
  const signal = AbortSignal.abort(new Error('too late'))
  const nested = held.using(service, DEFAULTS, 'gpu', {}, () =>
    held.using(service, DEFAULTS, 'gpu', { signal }, () => 'joined'),
  )
  await expect(nested).rejects.toThrow('too late')
})

test('an option that is undefined is none: the lease is kept alive', async () => {
  const asked: unknown[] = []
  const noting = {
    acquire: (_: unknown, { autoExtend }: AcquireOptions = {}) => {
      asked.push(autoExtend)
      return service.acquire()
    },
  }
  const held = new HeldLeases()
  // Callers without types, and those that do not set `exactOptionalPropertyTypes`.
  const options = { autoExtend: undefined } as unknown as AcquireOptions
  await held.using(noting, DEFAULTS, 'gpu', options, () => undefined)
  await held.using(noting, DEFAULTS, 'gpu', { autoExtend: false }, () => undefined)
  expect(asked).toEqual([true, false])
})
