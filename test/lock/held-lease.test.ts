/** The life of a lease on a clock that a test moves. */
import { describe, expect, test } from 'vitest'
import { LeaseLostError, RedlockClosedError, type Lease, type Redlock } from '../../src/index.ts'
import { FakeClock, memoryFleet, type MemoryFleet } from '../../src/testing/index.ts'
import { useClosers } from '../fixtures.ts'

const LEASE_MS = 1_000
const closers = useClosers()

async function held(
  options: Parameters<Redlock['acquire']>[1] = {},
): Promise<{ clock: FakeClock; fleet: MemoryFleet; redlock: Redlock; lease: Lease }> {
  const clock = new FakeClock()
  const fleet = memoryFleet({ clock, masters: 3 })
  closers.add(async () => {
    await fleet[Symbol.asyncDispose]()
  })
  const redlock = await fleet.redlock({ leaseMs: LEASE_MS })
  return { clock, fleet, redlock, lease: await redlock.acquire('r', options) }
}

/** Why it is not held. */
function lossOf(lease: Lease): unknown {
  try {
    lease.assertHeld()
  } catch (error) {
    return error
  }
  return undefined
}

describe('the signal', () => {
  test('is always the same object, and aborts with the loss that every call reports', async () => {
    const { clock, lease } = await held()
    const { signal } = lease
    expect(lease.signal).toBe(signal)
    await clock.advance(LEASE_MS)
    expect(signal.aborted).toBe(true)
    const loss: unknown = signal.reason
    expect(loss).toBeInstanceOf(LeaseLostError)
    const losses = [lossOf(lease), lossOf(lease)]
    expect(losses.every((error) => error === loss)).toBe(true)
  })

  test('does not abort after a release', async () => {
    const { clock, lease } = await held()
    const { signal } = lease
    await lease.release()
    await clock.advance(2 * LEASE_MS)
    expect(signal.aborted).toBe(false)
    expect(String(lossOf(lease))).toContain('it was released')
  })

  test('says that the lock service was closed, where that is the cause', async () => {
    const { clock, redlock, lease } = await held()
    const { signal } = lease
    await redlock.close()
    expect((signal.reason as Error).cause).toBeInstanceOf(RedlockClosedError)
    const { clock: other, lease: lapsed } = await held()
    await other.advance(LEASE_MS)
    expect((lapsed.signal.reason as Error).cause).toBeUndefined()
    await clock.advance(LEASE_MS)
  })
})

describe('limits', () => {
  test('maxHoldMs: no extension reaches beyond it', async () => {
    const { clock, lease } = await held({ maxHoldMs: 2 * LEASE_MS })
    await clock.advance(500)
    expect(await lease.extend()).toMatchObject({ status: 'extended' })
    await clock.advance(500)
    expect(await lease.extend()).toMatchObject({ status: 'extended' })
    await clock.advance(1)
    expect(await lease.extend()).toMatchObject({ status: 'limit', option: 'maxHoldMs' })
  })

  test('maxHoldMs counts from the attempt, also on a machine that was up for months', async () => {
    const { clock, redlock, lease: earlier } = await held()
    await earlier.release()
    await clock.advance(100 * LEASE_MS)
    const lease = await redlock.acquire('r', { maxHoldMs: 2 * LEASE_MS })
    expect(await lease.extend()).toMatchObject({ status: 'extended' })
  })
})

test('a lease that is over cannot be handed over', async () => {
  const { clock, redlock, lease } = await held()
  await clock.advance(LEASE_MS)
  expect(() => redlock.handOver(lease)).toThrow(LeaseLostError)
})
