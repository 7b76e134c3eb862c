/**
 * What a sick minority costs: the median time of an acquire with one of five masters black-holed
 * and one refusing connections, against the same with all five healthy. Both clients go through
 * proxies to the same servers, in turns within one run, so that only the ratio matters.
 *
 *   npm run bench:degraded -- [--rounds 9] [--per-round 200] [--json]
 */
import { parseArgs } from 'node:util'
import { Redlock, type Logger } from '../src/index.ts'
import { provisionServer } from '../scripts/provision-server.ts'
import { startFleet } from '../src/testing/index.ts'
import { startProxy, type FaultProxy } from '../test/support/proxy.ts'

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '9' },
    'per-round': { type: 'string', default: '200' },
    json: { type: 'boolean', default: false },
  },
})
const rounds = Number(values.rounds)
const perRound = Number(values['per-round'])
const ignore = (): void => undefined
const logger: Logger = { debug: ignore, info: ignore, warn: ignore, error: ignore }

await provisionServer({ install: true, say: console.error })
await using fleet = await startFleet({ masters: 5, queue: false })
const healthyProxies = await Promise.all(fleet.masters.map(({ port }) => startProxy(port)))
const sickProxies = await Promise.all(fleet.masters.map(({ port }) => startProxy(port)))
const client = (proxies: readonly FaultProxy[], namespace: string): Redlock =>
  new Redlock({ masters: proxies.map(({ url }) => url), namespace, logger })
const healthy = client(healthyProxies, 'healthy')
const sick = client(sickProxies, 'sick')
await Promise.all([healthy.bootstrap({ newFleet: true }), sick.bootstrap({ newFleet: true })])
await sickProxies[0]?.drop()
await sickProxies[1]?.refuse()

await measure(healthy)
await measure(sick)
const healthyMs: number[] = []
const sickMs: number[] = []
for (let round = 0; round < rounds; round++) {
  healthyMs.push(...(await measure(healthy)))
  sickMs.push(...(await measure(sick)))
}
const lostBytes = sickProxies[0]?.counters.requests.lost ?? 0
await Promise.all([healthy.close(), sick.close()])
await Promise.all([...healthyProxies, ...sickProxies].map((proxy) => proxy.close()))

const figures = {
  acquires: healthyMs.length,
  healthyMedianMs: quantile(healthyMs, 0.5),
  healthyP99Ms: quantile(healthyMs, 0.99),
  sickMedianMs: quantile(sickMs, 0.5),
  sickP99Ms: quantile(sickMs, 0.99),
  medianRatio: quantile(sickMs, 0.5) / quantile(healthyMs, 0.5),
  p99Ratio: quantile(sickMs, 0.99) / quantile(healthyMs, 0.99),
  blackHoledBytes: lostBytes,
}
if (values.json) {
  console.log(JSON.stringify(figures))
} else {
  console.log(`${figures.acquires} acquires each, one at a time, node ${process.version}`)
  console.table({
    'five healthy masters': row(figures.healthyMedianMs, figures.healthyP99Ms),
    '1 black-holed, 1 refusing': row(figures.sickMedianMs, figures.sickP99Ms),
    ratio: { median: figures.medianRatio.toFixed(2), p99: figures.p99Ratio.toFixed(2) },
  })
}
// Without a single lost byte the fault did not happen and the figures mean nothing.
process.exitCode = lostBytes > 0 && figures.medianRatio <= 1.5 ? 0 : 1

function row(medianMs: number, p99Ms: number): { median: string; p99: string } {
  return { median: `${medianMs.toFixed(3)} ms`, p99: `${p99Ms.toFixed(3)} ms` }
}

async function measure(redlock: Redlock): Promise<number[]> {
  const times: number[] = []
  for (let index = 0; index < perRound; index++) {
    const startedAt = performance.now()
    const outcome = await redlock.tryAcquire(`resource:${index}`)
    if (outcome.status !== 'granted') throw new Error(JSON.stringify(outcome))
    times.push(performance.now() - startedAt)
    await outcome.lease.release()
  }
  return times
}

function quantile(times: readonly number[], q: number): number {
  const sorted = [...times].sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? 0
}
