/**
 * Prometheus' text of everything that this process measures. The OpenTelemetry SDK is loaded here
 * and nowhere else, and registered before the worker modules are imported, so that whatever they
 * measure themselves is shown too. Where an SDK was registered already
 * (`node --import ./instrumentation.js`), that one exports the metrics, and the page says so.
 */
import { metrics } from '@opentelemetry/api'
import type { Page } from './http-pages.ts'

export interface Metrics {
  page(): Promise<Page>
  close(): Promise<void>
}

const TEXT = 'text/plain; version=0.0.4; charset=utf-8'

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
      return { status: 200, contentType: TEXT, body: serializer.serialize(resourceMetrics) }
    },
    async close() {
      metrics.disable()
      await provider.shutdown()
    },
  }
}

const elsewhere: Page = {
  status: 501,
  contentType: TEXT,
  body: '# This process has registered its own OpenTelemetry SDK, which exports its metrics.\n',
}
