/** Matrix row 9: clocks that run at different rates, and clocks that step. */
import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, afterEach, describe, expect, it } from 'vitest'
import { until } from '../fixtures.ts'
import { monotonicMs } from './monotonic.ts'
import type { Rig } from './rig.ts'
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
  const clocksOf = (rig: Rig): readonly ShimmedClock[] => {
    const clocks = rig.servers.map(({ port }) => present(shim).clock(port))
    for (const clock of clocks) expect(clock.looks).toBeGreaterThan(0)
    touched.push(...clocks)
    return clocks
  }

  it.each(SEEDS)(
    'rates half a percent either way, the largest allowed difference (seed %i)',
    async (seed) => {
      const rig = await stage.rig({ seed, ...HOLDING })
      const clocks = clocksOf(rig)
      for (const [index, clock] of clocks.entries()) clock.run(index % 2 === 0 ? 1.005 : 0.995)
      await delay(ALL ? 10_000 : 2_500)
      for (const clock of clocks) expect(Math.abs(clock.aheadMs)).toBeGreaterThan(5)
      for (const clock of clocks) clock.run(1)
      expect(await rig.finish()).toEqual([])
    },
  )

  it('rates far beyond the allowance: the masters are not counted until their clocks run well', async () => {
    const rig = await stage.rig({ seed: 5, ...HOLDING, exclusion: false })
    const clocks = clocksOf(rig)
    for (const clock of clocks) clock.run(4)
    await until('the masters are suspended', () => unreachable(rig) > 3)
    for (const clock of clocks) clock.run(1)
    await rig.progress(5)
    expect(await rig.finish()).toEqual([])
  })

  const steps = ALL ? [1, -1, 60, -60, 3_600, -3_600] : [1, -60, 3_600]
  it.each(steps)(
    'two masters whose clocks step by %i s and back: tokens stay in order',
    async (seconds) => {
      const rig = await stage.rig({ seed: Math.abs(seconds), exclusion: false, loops: 3 })
      const clocks = clocksOf(rig).slice(0, 2)
      for (const clock of clocks) clock.step(seconds * 1_000)
      await rig.progress(15)
      for (const clock of clocks) clock.step(-seconds * 1_000)
      await rig.progress(10)
      expect(await rig.finish()).toEqual([])
    },
  )

  it('a majority of the masters a minute ahead: it is noticed, tokens stay in order', async () => {
    const rig = await stage.rig({ seed: 9, ...HOLDING, exclusion: false })
    const clocks = clocksOf(rig).slice(0, 3)
    const steppedAt = monotonicMs()
    for (const clock of clocks) clock.step(60_000)
    await rig.progress(8)
    // The step is seen in the first reply, and the master does not count for one maxLeaseMs.
    const after = [...rig.history.leases.values()].filter(({ attemptAt }) => attemptAt > steppedAt)
    const firstAt = Math.min(...after.map(({ grantedAt }) => grantedAt))
    expect(firstAt - steppedAt).toBeGreaterThan(rig.maxLeaseMs)
    expect(await rig.finish()).toEqual([])
  })

  it('clients a minute ahead are refused, and welcome when their clocks are right again', async () => {
    const rig = await stage.rig({ seed: 13, loops: 3 })
    const clock = present(shim).clock(MEMBERS)
    touched.push(clock)
    expect(clock.looks).toBeGreaterThan(0)
    clock.step(60_000)
    await delay(300)
    const before = rig.grants
    await delay(300)
    expect(rig.grants).toBe(before)
    expect(unreachable(rig)).toBeGreaterThan(0)
    clock.step(-60_000)
    await rig.progress(10)
    clock.step(-60_000)
    await rig.progress(10)
    expect(await rig.finish()).toEqual([])
  })
})

function unreachable(rig: Rig): number {
  return rig.history.refusals.get('unreachable') ?? 0
}

function present(shim: ClockShim | undefined): ClockShim {
  if (shim === undefined) throw new Error('Without a shim these tests are skipped')
  return shim
}
