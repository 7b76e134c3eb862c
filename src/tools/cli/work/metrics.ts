/**
 * Prometheus' text of everything that this process measures. The OpenTelemetry SDK is loaded here
 * and nowhere else, and registered before the worker modules are imported, so that whatever they
 * measure themselves is shown too. Where an SDK was registered already
 * (`node --import ./instrumentation.js`), that one exports the metrics, and the page says so. Where
 * no SDK is installed, the page says what to install.
 */
import { createNoopMeter, metrics } from '@opentelemetry/api'
import { text, type HttpAnswer } from '../../dashboard/answers.ts'
import { messageOf } from '../../../message-of.ts'
import { installed, NotInstalledError } from '../../operator/open-locks.ts'

export interface Metrics {
  /** What to do for there to be metrics. */
  readonly problem?: string
  page(): Promise<HttpAnswer>
  close(): Promise<void>
}

const TEXT = { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' }

/** The last versions for Node.js 20, with which this package is tested. */
const PACKAGES = '@opentelemetry/sdk-metrics@2.12.0 @opentelemetry/exporter-prometheus@0.223.0'

export async function openMetrics(): Promise<Metrics> {
  if (metrics.getMeterProvider().getMeter('') !== createNoopMeter()) return none(ELSEWHERE)
  try {
    return await installed(PACKAGES, serve)
  } catch (error) {
    if (!(error instanceof NotInstalledError)) throw error
    return { problem: messageOf(error), ...none(messageOf(error)) }
  }
}

async function serve(): Promise<Metrics> {
  const [{ MeterProvider }, { PrometheusExporter, PrometheusSerializer }] = await Promise.all([
    import('@opentelemetry/sdk-metrics'),
    import('@opentelemetry/exporter-prometheus'),
  ])
  const reader = new PrometheusExporter({ preventServerStart: true })
  const provider = new MeterProvider({ readers: [reader] })
  metrics.setGlobalMeterProvider(provider)
  const serializer = new PrometheusSerializer()
  return {
    async page() {
      const { resourceMetrics } = await reader.collect()
      return text(200, serializer.serialize(resourceMetrics).trimEnd(), TEXT)
    },
    async close() {
      metrics.disable()
      await provider.shutdown()
    },
  }
}

const ELSEWHERE =
  'This process has registered its own OpenTelemetry SDK, which exports its metrics.'

function none(why: string): Metrics {
  const answer = text(501, `# ${why}`, TEXT)
  return { page: () => Promise.resolve(answer), close: () => Promise.resolve() }
}
