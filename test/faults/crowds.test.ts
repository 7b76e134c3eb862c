/** Matrix row 13: all that wait try again when the masters come back. */
import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { Redlock, silentLogger } from '../../src/index.ts'
import { startFleet, type Fleet } from '../../src/testing/index.ts'
import { assertNoLeaks } from '../support/leaks.ts'
import { ProxiedMasters } from '../support/proxied-masters.ts'
import { useBystander } from '../support/undisturbed.ts'

assertNoLeaks()
let fleet: Fleet
let masters: ProxiedMasters
let runs = 0

beforeAll(async () => {
  fleet = await startFleet({ masters: 5, queue: false })
  masters = await ProxiedMasters.start(fleet.masters)
})

afterAll(async () => {
  await masters[Symbol.asyncDispose]()
  await fleet.close()
})

/** It ends before the file looks for what is left. */
const undisturbed = useBystander()

/** One client for each so many contenders, as workers in several processes would be. */
async function clients(count: number): Promise<readonly Redlock[]> {
  const namespace = `crowd-${process.pid}-${++runs}`
  const all = Array.from(
    { length: count },
    () =>
      new Redlock({
        masters: masters.urls,
        namespace,
        // A busy machine is no silent master.
        ...{ leaseMs: 4_000, maxLeaseMs: 4_000, masterTimeoutMs: 2_000 },
        logger: silentLogger,
      }),
  )
  await all[0]?.bootstrap({ newFleet: true, confirmed: true })
  await Promise.all(all.map((redlock) => redlock.ready()))
  return all
}

it('workers that waited for the masters to come back are served in time, without a livelock', async () => {
  await undisturbed(async () => {
    const redlocks = await clients(4)
    try {
      await Promise.all([0, 1, 2].map((index) => masters.proxy(index).drop()))
      const herd = Array.from({ length: 80 }, async (_, index) => {
        const redlock = redlocks[index % redlocks.length]
        await redlock?.using(`h${index % 4}`, { waitMs: 30_000 }, () => undefined)
        return performance.now()
      })
      await delay(800)
      expect(masters.proxy(0).counters.requests.lost).toBeGreaterThan(0)
      await Promise.all([0, 1, 2].map((index) => masters.proxy(index).pass()))
      const healedAt = performance.now()
      const served = await Promise.all(herd)
      const lastMs = Math.max(...served) - healedAt
      console.log(
        `80 in a herd: the last one was served ${Math.round(lastMs)} ms after the masters were back`,
      )
      expect(lastMs).toBeLessThan(15_000)
    } finally {
      await masters.pass()
      await Promise.all(redlocks.map((redlock) => redlock.close()))
    }
  })
}, 300_000)
