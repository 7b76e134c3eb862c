/**
 * Matrix rows 6, 7 and 8: what a network does to connections, in each direction, to a minority and
 * to a majority.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { Redlock, silentLogger } from '../../src/index.ts'
import { until } from '../fixtures.ts'
import { SeededRandom } from '../sim/seeded-random.ts'
import { startProxy } from '../support/proxy.ts'
import { CUTS, type Cut } from './cuts.ts'
import type { Harness } from './harness.ts'
import { ALL, SEEDS, useStage } from './scenario.ts'

const stage = useStage({ masters: 5, leaky: true })

it.each(SEEDS)(
  `${CUTS.map(({ how }) => how).join(', ')}, to a minority and to a majority (seed %i)`,
  async (seed) => {
    const harness = await stage.harness({ seed, loops: 3, holdMs: 60 })
    for (const cut of CUTS) {
      for (const indexes of [[0], [1, 2], [2, 3, 4]]) await strike(harness, cut, indexes)
    }
    expect(await harness.finish()).toEqual([])
  },
)

async function strike(harness: Harness, cut: Cut, indexes: readonly number[]): Promise<void> {
  const proxies = indexes.map((index) => harness.masters.proxy(index))
  // Clients take their time to come back from the last cut, and only who is there can be cut off.
  await until('clients are connected', () => proxies.every(({ counters }) => counters.open > 0))
  const before = proxies.map((proxy) => cut.strikes(proxy))
  await Promise.all(proxies.map((proxy) => cut.begin(proxy)))
  if (indexes.length <= 2) await harness.progress(4)
  await until(`${cut.how} has struck each`, () =>
    proxies.every((proxy, at) => cut.strikes(proxy) > (before[at] ?? 0)),
  )
  if (indexes.length > 2) await delay(harness.leaseMs)
  await Promise.all(proxies.map((proxy) => proxy.pass()))
  await harness.progress(4)
}

it.each(SEEDS)('delays from nothing to three leases (seed %i)', async (seed) => {
  const harness = await stage.harness({ seed, loops: 3 })
  const random = new SeededRandom(seed)
  const jitter = (upToMs: number) => () => random.next() ** 3 * upToMs
  const worst = ALL ? [20, 100, 400, 1_200] : [20, 1_200]
  for (const upToMs of worst) {
    for (const proxy of harness.masters.proxies) {
      proxy.delay({ requestsMs: jitter(upToMs), repliesMs: jitter(upToMs) })
    }
    await delay(2 * harness.leaseMs)
  }
  for (const proxy of harness.masters.proxies) {
    expect(proxy.counters.requests.delayed).toBeGreaterThan(0)
    await proxy.pass()
  }
  await harness.progress(10)
  expect(await harness.finish()).toEqual([])
})

it.each(SEEDS)(
  'requests that arrive after the client timed out and reconnected (seed %i)',
  async (seed) => {
    const harness = await stage.harness({ seed, loops: 3 })
    let tombstoned = 0
    for (const index of [0, 1]) {
      const hold = harness.masters.proxy(index).holdRequests()
      await hold.held
      await delay(harness.leaseMs) // Several timeouts of a master.
      await harness.progress(5)
      hold.release()
      // They last for a while: looked for as they come.
      const marked = until(
        'a release left a tombstone',
        async () => (await tombstones(harness)) > 0,
      )
      await Promise.all([harness.progress(5), marked.then(() => tombstoned++)])
    }
    expect(harness.masters.proxy(0).counters.requests.held).toBeGreaterThan(0)
    expect(tombstoned).toBe(2)
    expect(await harness.finish()).toEqual([])
  },
)

it.each(SEEDS)(
  'replies that are lost on all masters at once after the script ran (seed %i)',
  async (seed) => {
    const harness = await stage.harness({ seed, loops: 3 })
    for (let round = 0; round < (ALL ? 6 : 2); round++) {
      const holds = harness.masters.proxies.map((proxy) => proxy.holdReplies())
      await Promise.all(holds.map(({ held }) => held))
      for (const hold of holds) hold.lose()
      await harness.progress(5)
    }
    expect(harness.masters.proxies.every(({ counters }) => counters.replies.lost > 0)).toBe(true)
    expect(await harness.finish()).toEqual([])
  },
)

it('byte by byte, to two masters and then to three', async () => {
  const { fleet } = stage
  // Some 23 kB for each master, one packet a byte: seconds, and on a busy machine many.
  const options = {
    ...{ leaseMs: 60_000, maxLeaseMs: 60_000, masterTimeoutMs: 60_000 },
    logger: silentLogger,
  }
  const proxies = await Promise.all(fleet.masters.slice(0, 3).map(({ port }) => startProxy(port)))
  for (const proxy of proxies) proxy.trickle()
  try {
    for (const slow of [2, 3]) {
      const masters = [...proxies.slice(0, slow).map(({ url }) => url), ...fleet.urls.slice(slow)]
      const namespace = `trickle-${process.pid}-${slow}`
      await using redlock = new Redlock({ masters, namespace, ...options })
      await redlock.bootstrap({ newFleet: true })
      await using lease = await redlock.acquire('r', { waitMs: 60_000 })
      expect((await lease.extend()).status).toBe('extended')
    }
    for (const { counters } of proxies) expect(counters.replies.bytes).toBeGreaterThan(100)
  } finally {
    await Promise.all(proxies.map((proxy) => proxy.close()))
  }
}, 150_000)

async function tombstones(harness: Harness): Promise<number> {
  const found = await Promise.all(
    harness.masters.connections.map((redis) => redis.keys(`${harness.namespace}:tomb:*`)),
  )
  return found.flat().length
}
