/** A grant in the very reply that shows that its master's clock jumped. */
import { expect, test } from 'vitest'
import { USUAL } from '../../src/redlock/wire/batch.ts'
import type { Master } from '../../src/redlock/wire/master.ts'
import type { LockFleet } from '../../src/redlock/fleet/fleet.ts'
import { Acquire } from '../../src/redlock/verbs/acquire.ts'

test('is no vote', () => {
  let suspendedMs = 0
  const clocks = { suspendedMs: () => suspendedMs }
  const settings = { masterTimeoutMs: 50, maxLeaseMs: 1_000 }
  const fleet = { clocks, settings } as unknown as LockFleet
  const master = {} as Master
  const attempt = { resources: ['r'], token: 'a', leaseMs: 500, waitMs: 0, waiter: '' }
  const acquire = new Acquire(fleet, attempt, 1)
  const reply = { ok: true, reply: USUAL, serverMs: 0 } as const
  expect(acquire.read(master, reply)).toEqual({ kind: 'granted', counter: 1 })
  suspendedMs = 5
  expect(acquire.read(master, reply)).toEqual({ kind: 'suspended', waitMs: 5 })
  expect(acquire.atCounter).toBe(1)
})
