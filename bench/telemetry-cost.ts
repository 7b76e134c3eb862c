/**
 * What telemetry costs an acquire and a release: the client's CPU for each, without a listener,
 * with OpenTelemetry's and nothing registered, and with an OpenTelemetry SDK for metrics, and for
 * metrics and traces. The variants take turns, so that a busy machine meets them all alike; the
 * median of each is shown.
 */
import { metrics, trace } from '@opentelemetry/api'
import { MeterProvider } from '@opentelemetry/sdk-metrics'
import { PrometheusExporter } from '@opentelemetry/exporter-prometheus'
import {
  AlwaysOffSampler,
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
  type Sampler,
} from '@opentelemetry/sdk-trace-base'
import { listen, openTelemetry, Redlock, silentLogger } from '../src/index.ts'
import { startFleet } from '../src/testing/index.ts'
import { median } from './statistics.ts'

const ROUNDS = 15
const PER_ROUND = 1_000
const AT_ONCE = 50

const spans = new InMemorySpanExporter()

function registerMetrics(): void {
  const readers = [new PrometheusExporter({ preventServerStart: true })]
  metrics.setGlobalMeterProvider(new MeterProvider({ readers }))
}

function registerTraces(sampler?: Sampler): void {
  const spanProcessors = [new SimpleSpanProcessor(spans)]
  const options = { spanProcessors, ...(sampler !== undefined && { sampler }) }
  trace.setGlobalTracerProvider(new BasicTracerProvider(options))
}

const VARIANTS: readonly (readonly [string, () => void])[] = [
  ['no listener', () => listen({ on: {} }, 'opentelemetry')],
  ['nothing registered', () => undefined],
  ['metrics', registerMetrics],
  [
    'metrics, traces not sampled',
    () => {
      registerMetrics()
      registerTraces(new AlwaysOffSampler())
    },
  ],
  [
    'metrics, every trace',
    () => {
      registerMetrics()
      registerTraces()
    },
  ],
]

async function acquireAndRelease(redlock: Redlock, first: number): Promise<void> {
  for (let resource = first; resource < PER_ROUND; resource += AT_ONCE) {
    const lease = await redlock.acquire(`customer:${resource}`)
    await lease.release()
  }
}

async function cpuUs(redlock: Redlock): Promise<number> {
  const before = process.cpuUsage()
  await Promise.all(
    Array.from({ length: AT_ONCE }, (_, first) => acquireAndRelease(redlock, first)),
  )
  const { user, system } = process.cpuUsage(before)
  return (user + system) / PER_ROUND
}

await using fleet = await startFleet({ masters: 5 })
const measured = new Map<string, number[]>()
const locks = new Map<string, Redlock>()
for (const [name] of VARIANTS) {
  const redlock = new Redlock({
    masters: fleet.urls,
    logger: silentLogger,
    namespace: name.replaceAll(' ', '-'),
  })
  await redlock.bootstrap({ newFleet: true })
  locks.set(name, redlock)
  measured.set(name, [])
}
for (let round = 0; round <= ROUNDS; round++) {
  for (const [name, register] of VARIANTS) {
    openTelemetry()
    register()
    const redlock = locks.get(name)
    if (redlock === undefined) throw new Error(`no lock for ${name}`)
    const us = await cpuUs(redlock)
    if (round > 0) measured.get(name)?.push(us) // The first round warms up.
    metrics.disable()
    trace.disable()
    spans.reset()
  }
}
const base = median(measured.get('no listener') ?? [])
for (const [name, values] of measured) {
  const us = median(values)
  console.log(`${name.padEnd(28)} ${us.toFixed(1).padStart(7)} µs  ${(us / base).toFixed(2)}`)
}
for (const redlock of locks.values()) await redlock.close()
