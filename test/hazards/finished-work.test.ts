/**
 * What the work returned or threw is what the caller gets, and when it is over the lease is silent.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { type Lease, type Logger, silentLogger } from '../../src/index.ts'
import { useFleet } from '../fixtures.ts'
import { assertNoLeaks } from '../support/leaks.ts'
import { undisturbed } from '../support/undisturbed.ts'
import { Harness } from './harness.ts'

assertNoLeaks()
const fixture = useFleet({ masters: 5 })

it('E8: an extension in flight at the end reports no loss (sesamecare: a false "lock lost")', async () => {
  await undisturbed({ bystander: fixture.fleet.queue }, async () => {
    await using harness = await Harness.open(fixture.fleet)
    const said: string[] = []
    const note = (_fields: object, message: string): void => {
      said.push(message)
    }
    const logger: Logger = { ...silentLogger, warn: note, error: note }
    const redlock = await harness.client({ leaseMs: 600, logger })
    said.length = 0
    let lease: Lease | undefined
    let aborts = 0
    const holds = await redlock.using('r', {}, async (current) => {
      lease = current
      current.signal.addEventListener('abort', () => {
        aborts += 1
      })
      const held = harness.masters.proxies.map((proxy) => proxy.holdReplies())
      await Promise.all(held.map((hold) => hold.held))
      return held
    })
    // The extension ran on every master, its replies come after the work is over.
    for (const proxy of harness.masters.proxies)
      expect(proxy.counters.replies.held).toBeGreaterThan(0)
    for (const hold of holds) hold.release()
    await delay(2 * (lease?.leaseMs ?? 0))
    expect(performance.now()).toBeGreaterThan(lease?.trustedUntil ?? Infinity)
    expect(lease?.signal.aborted).toBe(false)
    expect(aborts).toBe(0)
    expect(said).toEqual([])
    expect(redlock.status().leases).toBe(0)
  })
})

it('F3: keeping a lease alive costs three rounds a lease (redlock-universal: 27,291 commands in 500 ms)', async () => {
  await using harness = await Harness.open(fixture.fleet)
  const leaseMs = 1_000
  // A renewal that a busy machine delays is late, not failed: the tries after a failure are not
  // counted here.
  const redlock = await harness.client({ leaseMs, masterTimeoutMs: leaseMs })
  await Promise.all(harness.masters.connections.map((redis) => redis.config('RESETSTAT')))
  const startedAt = performance.now()
  await redlock.using('r', {}, () => delay(1_500))
  const renewals = Math.floor((performance.now() - startedAt) / (leaseMs / 3))

  for (const redis of harness.masters.connections) {
    const calls = await scriptCalls(redis)
    // One to acquire, one to release, and the renewals in between.
    expect(calls).toBeLessThanOrEqual(2 + renewals)
    expect(calls).toBeGreaterThanOrEqual(3)
  }
})

async function scriptCalls(redis: { info(section: string): Promise<string> }): Promise<number> {
  const calls = /^cmdstat_evalsha:calls=(\d+)/m.exec(await redis.info('commandstats'))?.[1]
  return Number(calls ?? 0)
}
