/**
 * Prometheus' text of everything that this process measures. The OpenTelemetry SDK is loaded here
 * and nowhere else, and registered before the worker modules are imported, so that whatever they
 * measure themselves is shown too. Where an SDK was registered already
 * (`node --import ./instrumentation.js`), that one exports the metrics, and the page says so.
 */
import { metrics } from '@opentelemetry/api'
import { text, type HttpAnswer } from '../../dashboard/answers.ts'

export interface Metrics {
  page(): Promise<HttpAnswer>
  close(): Promise<void>
}

const TEXT = { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' }

export async function openMetrics(): Promise<Metrics> {
  const [{ MeterProvider }, { PrometheusExporter, PrometheusSerializer }] = await Promise.all([
    import('@opentelemetry/sdk-metrics'),
    import('@opentelemetry/exporter-prometheus'),
  ])
  const reader = new PrometheusExporter({ preventServerStart: true })
  const provider = new MeterProvider({ readers: [reader] })
  if (!metrics.setGlobalMeterProvider(provider)) {
    await provider.shutdown()
    return { page: () => Promise.resolve(elsewhere), close: () => Promise.resolve() }
  }
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

const elsewhere = text(
  501,
  '# This process has registered its own OpenTelemetry SDK, which exports its metrics.',
  TEXT,
)
