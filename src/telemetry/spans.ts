/** Every span of this package. docs/telemetry.md lists them with their attributes. */
import { SpanStatusCode, type Attributes, type Tracer } from '@opentelemetry/api'
import { systemClock } from '../clock.ts'

export const SPANS = {
  'redlock.acquire': 'One attempt to acquire a lease',
  'redlock.extend': 'A lease is renewed',
  'redlock.release': 'A lease is given back',
  'redlock.step': 'A step of a job',
  'redlock.requeue': 'A job goes back to the queue, because it may not run yet',
} as const

type SpanName = keyof typeof SPANS

/** What has just ended and took `durationMs`, as a span of the current trace. */
export function spanned(
  tracer: Tracer | undefined,
  name: SpanName,
  durationMs: number,
  attributes: Attributes,
  error?: string,
): void {
  if (tracer === undefined) return
  const endTime = systemClock.wallNow()
  const span = tracer.startSpan(name, { startTime: endTime - durationMs, attributes })
  if (error !== undefined) span.setStatus({ code: SpanStatusCode.ERROR, message: error })
  span.end(endTime)
}
