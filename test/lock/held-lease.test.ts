/** The life of a lease on a clock that a test moves. */
import { describe, expect, test } from 'vitest'
import {
  LeaseLostError,
  listen,
  RedlockClosedError,
  type Lease,
  type LockService,
} from '../../src/index.ts'
import { FakeClock, memoryLocks } from '../../src/testing/index.ts'
import { useClosers } from '../fixtures.ts'

const LEASE_MS = 1_000
const closers = useClosers()

async function held(
  options: Parameters<LockService['acquire']>[1] = {},
): Promise<{ clock: FakeClock; locked: LockService; lease: Lease }> {
  const clock = new FakeClock()
  const locks = closers.closing(memoryLocks({ clock }))
  const locked = await locks.open({ leaseMs: LEASE_MS })
  return { clock, locked, lease: await locked.acquire('r', options) }
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
    const { clock, locked, lease } = await held()
    const { signal } = lease
    await locked.close()
    expect((signal.reason as Error).cause).toBeInstanceOf(RedlockClosedError)
    const { clock: other, lease: lapsed } = await held()
    await other.advance(LEASE_MS)
    expect((lapsed.signal.reason as Error).cause).toBeUndefined()
    await clock.advance(LEASE_MS)
  })
})

test('a close in the listener of a loss also ends the leases that are due with it', async () => {
  const { clock, locked, lease } = await held()
  const others = await Promise.all(['s', 't'].map((name) => locked.acquire(name)))
  const signals = others.map(({ signal }) => signal)
  lease.signal.addEventListener('abort', () => void locked.close())
  await clock.advance(700)
  for (const other of others) await other.extend()
  await clock.advance(288) // Of the 988 ms of trust.
  expect(lease.signal.aborted).toBe(true)
  expect(signals.map(({ reason }) => (reason as Error).cause)).toEqual([
    expect.any(RedlockClosedError),
    expect.any(RedlockClosedError),
  ])
})

test('an extension is told before its lease ends, or not at all', async () => {
  const told: string[] = []
  const stop = listen({
    on: {
      'lease:extended': ({ outcome }) => void told.push(outcome),
      'lease:ended': ({ how }) => void told.push(how),
    },
  })
  for (let turns = 0; turns < 20; turns++) {
    const { locked, lease } = await held()
    const extending = lease.extend().catch(() => undefined)
    for (let turn = 0; turn < turns; turn++) await Promise.resolve()
    await lease.release()
    await extending
    await locked.close()
  }
  stop()
  expect(told.length).toBeGreaterThan(20)
  told.forEach((what, nr) => {
    if (what === 'extended') expect(told[nr + 1]).toBe('released')
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

  test('maxExtensions: only what the server confirmed counts', async () => {
    const clock = new FakeClock()
    const locks = closers.closing(memoryLocks({ clock }))
    const lease = await (await locks.open({ leaseMs: LEASE_MS })).acquire('r', { maxExtensions: 1 })
    await locks.network.cut()
    const cutOff = lease.extend()
    await clock.advance(LEASE_MS / 2)
    expect(await cutOff).toMatchObject({ status: 'unreachable' })
    await locks.network.heal()
    expect(await lease.extend()).toMatchObject({ status: 'extended' })
    expect(await lease.extend()).toMatchObject({ status: 'limit', option: 'maxExtensions' })
  })

  test('maxHoldMs counts from the attempt, also on a machine that was up for months', async () => {
    const { clock, locked, lease: earlier } = await held()
    await earlier.release()
    await clock.advance(100 * LEASE_MS)
    const lease = await locked.acquire('r', { maxHoldMs: 2 * LEASE_MS })
    expect(await lease.extend()).toMatchObject({ status: 'extended' })
  })
})
