/** Masters that are gone: a minority must not be noticed, and a majority ends the lease in time. */
import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { LeaseLostError, type Lease, type Redlock } from '../../src/index.ts'
import { startFleet, type Fleet } from '../../src/testing/index.ts'
import type { FaultProxy } from '../support/proxy.ts'
import { watchLeaks } from '../support/leaks.ts'
import { until } from '../fixtures.ts'
import { abortsInTime, item, Harness } from './harness.ts'

const leaks = watchLeaks()
let fleet: Fleet

beforeAll(async () => {
  fleet = await startFleet({ masters: 5, queue: false })
})

afterAll(async () => {
  await fleet.close()
  await leaks.assertNone()
})

/** The end of a lease whose holder lost a majority of the masters in the middle of its work. */
async function expectSignalInTime(
  harness: Harness,
  fault: (proxy: FaultProxy) => Promise<void>,
): Promise<void> {
  const leaseMs = 1_500
  const holder = await harness.client({ leaseMs })
  const other = await harness.client({ leaseMs, direct: true })
  let start: (lease: Lease) => void = () => undefined
  const started = new Promise<Lease>((resolve) => {
    start = resolve
  })
  const work = holder.using('r', {}, async (lease) => {
    start(lease)
    await Promise.all(harness.proxies.slice(0, 3).map(fault))
    expect(await abortsInTime(lease, leaseMs / 2)).toBe(true)
    expect(lease.signal.reason).toBeInstanceOf(LeaseLostError)
    expect(lease.remainingMs()).toBe(0)
    expect(() => {
      lease.assertHeld()
    }).toThrow(LeaseLostError)
    return 'stopped'
  })
  const lost = await started
  const next = await other.acquire('r', { waitMs: 8_000 })
  expect(performance.now()).toBeGreaterThan(lost.trustedUntil)
  expect(next.fencingToken).toBeGreaterThan(lost.fencingToken)
  expect(await work).toBe('stopped')
  await next.release()
}

it('E4: a majority that stops answering ends the lease in time (published libraries: seconds late, or never)', async () => {
  await using harness = await Harness.open(fleet)
  await expectSignalInTime(harness, (proxy) => proxy.drop())
  for (const proxy of harness.proxies.slice(0, 3)) {
    expect(proxy.counters.requests.lost).toBeGreaterThan(0)
  }
})

it('E4: the signal comes in time to a holder that never asks, from a timer that needs no network', async () => {
  await using harness = await Harness.open(fleet)
  const leaseMs = 1_000
  const redlock = await harness.client({ leaseMs })
  const lease = await redlock.acquire('r', { autoExtend: false })
  await Promise.all(harness.proxies.map((proxy) => proxy.drop()))
  expect(await abortsInTime(lease, leaseMs / 2)).toBe(true)
  expect(lease.signal.reason).toBeInstanceOf(LeaseLostError)
  await lease.release()
  await until('no request has reached a master', () =>
    harness.proxies.every(({ counters }) => counters.requests.lost > 0),
  )
})

it('E4b: a majority that refuses connections ends the lease in time (node-redlock: after its retries)', async () => {
  await using harness = await Harness.open(fleet)
  await expectSignalInTime(harness, (proxy) => proxy.refuse())
  for (const proxy of harness.proxies.slice(0, 3)) {
    expect(proxy.counters.resets).toBeGreaterThan(0)
  }
})

/**
 * Far more than a healthy round trip takes, so that waiting for the missing master would be seen.
 */
const PATIENCE_MS = 10_000

async function expectUnnoticed(redlock: Redlock): Promise<void> {
  const startedAt = performance.now()
  const lease = await redlock.acquire('r', { waitMs: 0 })
  expect((await lease.extend()).status).toBe('extended')
  await lease.release()
  const again = await redlock.acquire('r', { waitMs: 0 })
  await again.release()
  expect(performance.now() - startedAt).toBeLessThan(PATIENCE_MS / 2)
}

it('F1: does not wait for one silent master of five (redlock 4.2.0: 15 s and more)', async () => {
  await using harness = await Harness.open(fleet)
  const redlock = await harness.client({ leaseMs: 2 * PATIENCE_MS, masterTimeoutMs: PATIENCE_MS })
  const hole = item(harness.proxies, 2)
  await hole.drop()
  await expectUnnoticed(redlock)
  expect(hole.counters.requests.lost).toBeGreaterThan(0)
})

it('F2: does not wait for one of five that refuses connections (redis-semaphore: 10 s)', async () => {
  await using harness = await Harness.open(fleet)
  const redlock = await harness.client({ leaseMs: 2 * PATIENCE_MS, masterTimeoutMs: PATIENCE_MS })
  await item(harness.proxies, 2).refuse()
  expect(item(harness.proxies, 2).counters.resets).toBeGreaterThan(0)
  await expectUnnoticed(redlock)
  // And not by a client that never saw it alive.
  const late = await harness.client({ leaseMs: 2 * PATIENCE_MS, masterTimeoutMs: PATIENCE_MS })
  expect(item(late.status().masters, 2).state).toBe('connecting')
  await expectUnnoticed(late)
})

it('G: with one dead master of five, exclusion holds on every default (redis-semaphore: two holders)', async () => {
  await using own = await startFleet({ masters: 5, queue: false })
  await using harness = await Harness.open(own)
  const dead = item(own.masters, 4)
  await dead.kill()
  try {
    await expectExclusion(harness)
    expect(dead.running).toBe(false)
  } finally {
    await dead.restart()
    await until('it is back', () => item(harness.masters, 4).status === 'ready')
  }
})

async function expectExclusion(harness: Harness): Promise<void> {
  const [a, b] = [await harness.client(), await harness.client()]
  for (const redlock of [a, b]) expect(item(redlock.status().masters, 4).state).toBe('connecting')

  const lease = await a.acquire('r')
  expect(lease.remainingMs()).toBeGreaterThan(lease.leaseMs / 2)
  expect((await b.tryAcquire('r')).status).toBe('taken')
  const ttls = harness.masters.slice(0, 4).map((redis) => redis.pttl(harness.keys.lease('r')))
  expect(Math.min(...(await Promise.all(ttls)))).toBeGreaterThan(0)
  await lease.release()

  let inside = 0
  const tokens: number[] = []
  const rounds = async (redlock: Redlock): Promise<void> => {
    for (let round = 0; round < 10; round += 1) {
      await redlock.using('r', { waitMs: 10_000 }, async ({ fencingToken }) => {
        inside += 1
        expect(inside).toBe(1)
        tokens.push(fencingToken)
        await delay(2)
        inside -= 1
      })
    }
  }
  await Promise.all([rounds(a), rounds(b)])
  expect(tokens).toHaveLength(20)
  expect(tokens.every((token, index) => index === 0 || token > item(tokens, index - 1))).toBe(true)
}
