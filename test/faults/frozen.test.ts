/**
 * Matrix rows 4 and 5: processes that stop and go on as if nothing had happened, masters and
 * holders alike.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { until } from '../fixtures.ts'
import { PAUSE_POINTS } from './history.ts'
import { SEEDS, useStage } from './scenario.ts'

const stage = useStage({ masters: 5 })
const LEASE_MS = 400

/** Less than a master's timeout, less than a lease, and more than a lease. */
const FREEZES_MS = [30, 200, 700] as const

it.each(SEEDS)('masters that freeze: late commands do no harm (seed %i)', async (seed) => {
  const harness = await stage.harness({ seed, leaseMs: LEASE_MS, holdMs: 100, loops: 3 })
  for (const ms of FREEZES_MS) {
    // Two at a time, then three, which stops everything for as long.
    for (const frozen of [
      [0, 1],
      [2, 3, 4],
    ]) {
      await Promise.all(frozen.map((index) => harness.masters.server(index).freeze()))
      await delay(ms)
      await Promise.all(frozen.map((index) => harness.masters.server(index).thaw()))
      await harness.progress(5)
    }
  }
  expect(await harness.finish()).toEqual([])
})

for (const how of ['block', 'stop'] as const) {
  it.each(SEEDS)(
    `a holder that stops (${how}) at every point in turn: the store refuses what it writes late (seed %i)`,
    async (seed) => {
      const leaseMs = 250
      const ms = 2 * leaseMs // Another holder has a lease's length to take over.
      const reviver = how === 'stop' ? reviveStopped(ms) : undefined
      try {
        const pauses = { points: PAUSE_POINTS, how, ms }
        const harness = await stage.harness({ seed, leaseMs, stubborn: true, resources: 1, pauses })
        const { history } = harness
        await until('every point was paused at', () => history.pauses.size === PAUSE_POINTS.length)
        await until('a late write was refused', () => history.staleWrites > 0)
        await until('a lease lapsed', () => history.ended('lapsed') > 0)
        expect(await harness.finish()).toEqual([])
      } finally {
        await reviver?.stop()
      }
    },
  )
}

/** Members stop themselves in the middle of things; this lets them go on after `ms`. */
function reviveStopped(ms: number): { stop(): Promise<void> } {
  const { clients } = stage
  const stopped = new AbortController()
  const loop = async (): Promise<void> => {
    const since = new Map<number, number>()
    while (!stopped.signal.aborted) {
      for (const index of clients.pids.keys()) {
        if (!clients.isStopped(index)) since.delete(index)
        else if (!since.has(index)) since.set(index, performance.now())
        else if (performance.now() - (since.get(index) ?? 0) > ms) clients.resume(index)
      }
      await delay(5)
    }
  }
  const running = loop()
  return {
    async stop() {
      stopped.abort()
      await running
      for (const index of clients.pids.keys()) clients.resume(index)
    },
  }
}
