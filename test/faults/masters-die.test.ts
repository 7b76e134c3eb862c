/**
 * Matrix row 1: masters are killed under work. A minority costs nothing; without a majority nobody
 * holds anything.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { Redlock, silentLogger } from '../../src/index.ts'
import { until } from '../fixtures.ts'
import { monotonicMs } from './monotonic.ts'
import { ALL, SEEDS, useStage } from './scenario.ts'
import { trustEnd } from './history.ts'

const stage = useStage({ masters: 5 })

it.each(SEEDS)('two of five die one after the other and work continues (seed %i)', async (seed) => {
  const harness = await stage.harness({ seed })
  for (const index of [0, 1]) {
    await harness.masters.server(index).kill()
    await harness.progress(15)
  }
  expect(harness.masters.servers.filter(({ running }) => !running)).toHaveLength(2)
  expect(await harness.finish()).toEqual([])
})

it.each(SEEDS)(
  'three of five die: no lease is granted, and the fleet recovers (seed %i)',
  async (seed) => {
    const harness = await stage.harness({ seed })
    await Promise.all([0, 1, 2].map((index) => harness.masters.server(index).kill()))
    const deadAt = monotonicMs()
    const before = harness.grants
    await until(
      'refusals come in',
      () => (harness.history.refusals.get('unreachable') ?? 0) >= 5 && harness.grants - before <= 4,
    )
    // A grant may have been on its way; whatever is granted now would be one too many.
    const late = [...harness.history.leases.values()].filter(({ attemptAt }) => attemptAt > deadAt)
    expect(late).toEqual([])
    const lastTrust = Math.max(...[...harness.history.leases.values()].map(trustEnd))
    expect(lastTrust).toBeLessThan(deadAt + harness.leaseMs)
    for (const index of [0, 1, 2]) await harness.masters.server(index).restart()
    await harness.progress(10)
    expect(await harness.finish()).toEqual([])
  },
)

const MOMENTS = ['acquire', 'extend', 'release'] as const
const DEAD = ALL ? [1, 2, 3, 4, 5] : [1, 3]
const cases = MOMENTS.flatMap((moment) => DEAD.map((dead) => [dead, moment] as const))

it.each(cases)(
  '%i of five die in the middle of %s: the call settles with a true result',
  async (dead, moment) => {
    const { fleet } = stage
    const namespace = `die-${dead}-${moment}-${process.pid}`
    await using redlock = new Redlock({
      masters: fleet.urls,
      namespace,
      // A busy machine is no dead master.
      ...{ leaseMs: 4_000, maxLeaseMs: 4_000, masterTimeoutMs: 1_000 },
      logger: silentLogger,
    })
    await redlock.bootstrap({ newFleet: true })
    const kill = (): Promise<unknown> =>
      Promise.all(fleet.masters.slice(0, dead).map((master) => master.kill()))

    if (moment === 'acquire') {
      const acquiring = redlock.tryAcquire('r')
      await kill()
      const outcome = await acquiring
      // The kill may come before or after the votes; with a minority it must not matter.
      if (dead <= 2) expect(outcome.status).toBe('granted')
      if (outcome.status === 'granted') await outcome.lease.release()
      else expect(outcome.status).toBe('unreachable')
      return
    }
    await using lease = await redlock.acquire('r')
    if (moment === 'extend') {
      const extending = lease.extend()
      await kill()
      const { status, remainingMs } = await extending
      if (dead <= 2) expect(status).toBe('extended')
      expect(remainingMs).toBeGreaterThan(0)
      expect(remainingMs).toBeLessThanOrEqual(lease.leaseMs)
      return
    }
    const known = new AbortController()
    const isLate = delay(2_000, 'late', known).catch(() => 'late')
    const releasing = lease.release().then(() => 'released')
    await kill()
    // As timers count, which come in their order also on a machine that stood still.
    expect(await Promise.race([releasing, isLate])).toBe('released')
    known.abort()
    expect(lease.remainingMs()).toBe(0)
  },
)
