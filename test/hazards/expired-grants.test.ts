/** A grant counts from before its first command left; one that comes too late is none. */
import { setTimeout as delay } from 'node:timers/promises'
import { expect, it } from 'vitest'
import type { AcquireOutcome } from '../../src/index.ts'
import { TOKENS_PER_GRANT } from '../../src/redlock/verbs.ts'
import { assertNoLeaks } from '../support/leaks.ts'
import { until, useFleet } from '../fixtures.ts'
import { neverTwoHolders, undisturbed } from '../support/undisturbed.ts'
import { item } from '../support/proxied-masters.ts'
import { Harness } from './harness.ts'

assertNoLeaks()
const fixture = useFleet({ masters: 5 })

/**
 * What every test here ends with: the masters did grant, the client did not believe it, and the
 * next one gets it.
 */
async function expectRefused(harness: Harness, outcome: AcquireOutcome): Promise<void> {
  expect(outcome.status).toBe('unreachable')
  await until('every master has answered, too late', () =>
    harness.masters.proxies.every((proxy) => proxy.counters.replies.delayed > 0),
  )
  expect(await harness.counters('r')).not.toContain(null)
  const other = await harness.client({ direct: true })
  await using lease = await other.acquire('r', { waitMs: 5_000 })
  expect(lease.remainingMs()).toBeGreaterThan(0)
}

it('E2: a quorum of replies inside their deadline and after the trust is no grant either', async () => {
  await using harness = await Harness.open(fixture.fleet)
  // Trusted for half of the lease; the deadline of a master is the whole of it.
  const redlock = await harness.client({ leaseMs: 1_600, masterTimeoutMs: 1_600, driftFactor: 0.5 })
  for (const proxy of harness.masters.proxies) proxy.delay({ repliesMs: 1_000 })
  const outcome = await redlock.tryAcquire('r')
  await expectRefused(harness, outcome)
  expect(JSON.stringify(outcome)).toContain('was already over')
})

it('E2: the trust may also run out in the round that fixes the fencing token', async () => {
  await using harness = await Harness.open(fixture.fleet)
  const options = { leaseMs: 1_600, masterTimeoutMs: 1_600, driftFactor: 0.5 }
  // Different counters, so that no quorum reports the highest one and a second round is needed.
  const aheadUs = (Date.now() + 3_000) * 1_000
  const spread = (): Promise<unknown> =>
    Promise.all(
      harness.masters.connections.map((redis, index) =>
        redis.set(harness.keys.fence('r'), aheadUs + 10 * index, 'PX', 60_000),
      ),
    )
  await spread()
  const control = await (await harness.client(options)).acquire('r')
  // Each grant counts on from its own counter; the second round raised a quorum to the highest.
  const granted = [20, 30, 40].map((ahead) => aheadUs + ahead + TOKENS_PER_GRANT)
  expect(granted).toContain(control.fencingToken)
  const exact = (await harness.counters('r')).filter(
    (counter) => counter === `${control.fencingToken}`,
  )
  expect(exact.length).toBeGreaterThanOrEqual(3)
  await control.release()
  await until('it is free again', async () => (await harness.holders('r')).every((h) => h === null))

  await spread()
  // A client that has not seen those counters, so that it proposes less than each of them.
  const late = await harness.client(options)
  for (const proxy of harness.masters.proxies) proxy.delay({ repliesMs: 500 })
  const outcome = await late.tryAcquire('r')
  await expectRefused(harness, outcome)
  expect(JSON.stringify(outcome)).toContain('was already over')
})

/** Until when the masters that make the quorum keep the lease, on this process's clock. */
async function keptUntil(harness: Harness, resource: string): Promise<number> {
  const ttls = await Promise.all(
    harness.masters.connections.map((redis) => redis.pttl(harness.keys.lease(resource))),
  )
  return (
    performance.now() +
    item(
      ttls.sort((a, b) => b - a),
      2,
    )
  )
}

it('E2b: a lease that was granted after a wait longer than its length has all its time (node-redlock: expired at once)', async () => {
  await undisturbed({ bystander: fixture.fleet.queue }, async () => {
    await using harness = await Harness.open(fixture.fleet)
    const leaseMs = 1_000
    const holder = await harness.client({ leaseMs, masterTimeoutMs: leaseMs, direct: true })
    const waiter = await harness.client({ leaseMs, masterTimeoutMs: leaseMs })
    const held = await holder.acquire('r', { autoExtend: true })
    const startedAt = performance.now()
    const waiting = waiter.acquire('r', { waitMs: 8_000 })
    await delay(1.2 * leaseMs)
    const releasedAt = performance.now()
    await held.release()

    await using lease = await waiting
    neverTwoHolders(held, { status: 'granted', lease })
    expect(releasedAt - startedAt).toBeGreaterThan(leaseMs)
    expect(held.signal.aborted).toBe(false)
    // Counted from the attempt that was granted, not from the first one …
    expect(lease.trustedUntil).toBeGreaterThan(releasedAt + leaseMs / 2)
    // … and never longer than the masters keep it.
    expect(lease.remainingMs()).toBeGreaterThan(0)
    expect(lease.trustedUntil).toBeLessThan(await keptUntil(harness, 'r'))
    expect((await lease.extend()).status).toBe('extended')
  })
})
