/** The life of a lease on a clock that a test moves. */
import { describe, expect, test } from 'vitest'
import { LeaseLostError, RedlockClosedError, type Lease, type Redlock } from '../../src/index.ts'
import { HeldLease } from '../../src/lock/held-lease.ts'
import { QuorumLease } from '../../src/redlock/quorum-lease.ts'
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
  const { clock, lease } = await held()
  await clock.advance(LEASE_MS)
  if (!(lease instanceof HeldLease)) throw new Error('it has another life')
  const beginHandOver = (): void => {
    lease.beginHandOver()
  }
  expect(beginHandOver).toThrow(LeaseLostError)
})

describe('a fencing token that was raised', () => {
  const quorumLease = (lease: Lease): QuorumLease => {
    if (lease instanceof QuorumLease) return lease
    throw new Error('it is not of a quorum')
  }

  test('is that of the lease, and the next one has the next', async () => {
    const { redlock, lease } = await held()
    const raised = lease.fencingToken + 1_000
    expect(await quorumLease(lease).raise(raised)).toBe(true)
    expect(lease.fencingToken).toBe(raised)
    const next = await redlock.handOver(lease)
    expect(next.status === 'granted' && next.lease.fencingToken).toBe(raised + 1)
  })

  test('is undefined where no quorum confirms it, or the lease is over', async () => {
    const { clock, fleet, lease } = await held()
    const { fencingToken } = lease
    for (const master of fleet.masters.slice(1)) master.kill()
    expect(await quorumLease(lease).raise(fencingToken + 1_000)).toBe(false)
    expect(lease.fencingToken).toBe(fencingToken)
    await clock.advance(LEASE_MS)
    await expect(quorumLease(lease).raise(fencingToken + 1_000)).rejects.toThrow(LeaseLostError)
  })

  test('resets the number of local hand-overs', async () => {
    const { redlock, lease: first } = await held()
    const outcome = await redlock.handOver(first)
    if (outcome.status !== 'granted') throw new Error(outcome.status)
    const raised = outcome.lease.fencingToken + 1_000
    expect(await quorumLease(outcome.lease).raise(raised)).toBe(true)
    expect(outcome.lease.fencingToken).toBe(raised)
  })
})
