/** Matrix row 9: clocks that run at different rates, and clocks that step. */
import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, afterEach, describe, expect, it } from 'vitest'
import { until } from '../fixtures.ts'
import { monotonicMs } from './monotonic.ts'
import type { Harness } from './harness.ts'
import { ALL, SEEDS, useStage } from './scenario.ts'
import { compileShim, type ClockShim, type ShimmedClock } from './shimmed-clock.ts'

const answer = await compileShim()
if (answer.status === 'absent') console.log(`Clocks are not tested here: ${answer.reason}`)

const MEMBERS = 'members'
/** Held for most of the lease, so that a lease that ends too early is noticed. */
const HOLDING = { leaseMs: 800, maxLeaseMs: 1_000, holdMs: 250, loops: 3, resources: 2 } as const

describe.skipIf(answer.status === 'absent')('clocks', () => {
  const shim = answer.status === 'ready' ? answer.shim : undefined
  const stage = useStage({
    masters: 5,
    ...(shim !== undefined && { memberEnv: shim.environment(MEMBERS) }),
  })
  afterAll(() => {
    shim?.remove()
  })
  const touched: ShimmedClock[] = []
  afterEach(() => {
    for (const clock of touched.splice(0)) {
      clock.run(1)
      clock.step(-clock.aheadMs)
    }
  })
  const clocksOf = (harness: Harness): readonly ShimmedClock[] => {
    const clocks = harness.servers.map(({ port }) => present(shim).clock(port))
    for (const clock of clocks) expect(clock.looks).toBeGreaterThan(0)
    touched.push(...clocks)
    return clocks
  }

  it.each(SEEDS)(
    'rates half a percent either way, the largest allowed difference (seed %i)',
    async (seed) => {
      const harness = await stage.harness({ seed, ...HOLDING })
      const clocks = clocksOf(harness)
      for (const [index, clock] of clocks.entries()) clock.run(index % 2 === 0 ? 1.005 : 0.995)
      await delay(ALL ? 10_000 : 2_500)
      for (const clock of clocks) expect(Math.abs(clock.aheadMs)).toBeGreaterThan(5)
      for (const clock of clocks) clock.run(1)
      expect(await harness.finish()).toEqual([])
    },
  )

  it('rates far beyond the allowance: the masters are not counted until their clocks run well', async () => {
    const harness = await stage.harness({ seed: 5, ...HOLDING, exclusion: false })
    const clocks = clocksOf(harness)
    for (const clock of clocks) clock.run(4)
    await until('the masters are suspended', () => unreachable(harness) > 3)
    for (const clock of clocks) clock.run(1)
    await harness.progress(5)
    expect(await harness.finish()).toEqual([])
  })

  const steps = ALL ? [1, -1, 60, -60, 3_600, -3_600] : [1, -60, 3_600]
  it.each(steps)(
    'two masters whose clocks step by %i s and back: tokens stay in order',
    async (seconds) => {
      const harness = await stage.harness({ seed: Math.abs(seconds), exclusion: false, loops: 3 })
      const clocks = clocksOf(harness).slice(0, 2)
      for (const clock of clocks) clock.step(seconds * 1_000)
      await harness.progress(15)
      for (const clock of clocks) clock.step(-seconds * 1_000)
      await harness.progress(10)
      expect(await harness.finish()).toEqual([])
    },
  )

  it('a majority of the masters a minute ahead: it is noticed, tokens stay in order', async () => {
    const harness = await stage.harness({ seed: 9, ...HOLDING, exclusion: false })
    const clocks = clocksOf(harness).slice(0, 3)
    const steppedAt = monotonicMs()
    for (const clock of clocks) clock.step(60_000)
    await harness.progress(8)
    // The step is seen in the first reply, and the master does not count for one maxLeaseMs.
    const after = [...harness.history.leases.values()].filter(
      ({ attemptAt }) => attemptAt > steppedAt,
    )
    const firstAt = Math.min(...after.map(({ grantedAt }) => grantedAt))
    expect(firstAt - steppedAt).toBeGreaterThan(harness.maxLeaseMs)
    expect(await harness.finish()).toEqual([])
  })

  it('clients a minute ahead are refused, and welcome when their clocks are right again', async () => {
    const harness = await stage.harness({ seed: 13, loops: 3 })
    const clock = present(shim).clock(MEMBERS)
    touched.push(clock)
    expect(clock.looks).toBeGreaterThan(0)
    clock.step(60_000)
    await delay(300)
    const before = harness.grants
    await delay(300)
    expect(harness.grants).toBe(before)
    expect(unreachable(harness)).toBeGreaterThan(0)
    clock.step(-60_000)
    await harness.progress(10)
    clock.step(-60_000)
    await harness.progress(10)
    expect(await harness.finish()).toEqual([])
  })
})

function unreachable(harness: Harness): number {
  return harness.history.refusals.get('unreachable') ?? 0
}

function present(shim: ClockShim | undefined): ClockShim {
  if (shim === undefined) throw new Error('Without a shim these tests are skipped')
  return shim
}
