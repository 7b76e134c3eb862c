/**
 * The OpenTelemetry SDK that the process has registered. It may be registered after a lock was
 * made, so it is looked up at each use: a few property reads, and nothing else where there is none.
 */
import {
  createNoopMeter,
  metrics,
  trace,
  SpanStatusCode,
  type MeterProvider,
  type Tracer,
  type TracerProvider,
  type Attributes,
} from '@opentelemetry/api'
import { getOrInsert } from '../get-or-insert.ts'
import { Instruments, type Sources } from './instruments.ts'
import { systemClock } from '../clock.ts'

const SCOPE = 'bullmq-redlock'

interface StandIn extends TracerProvider {
  /** Undefined until a provider is registered. */
  getDelegateTracer(name: string): Tracer | undefined
}

export class Sdk {
  readonly #sources: Sources
  readonly #known = new WeakMap<MeterProvider, Instruments>()
  #meters: MeterProvider | undefined
  #instruments: Instruments | undefined
  #tracers: TracerProvider | undefined
  #tracer: Tracer | undefined

  constructor(sources: Sources) {
    this.#sources = sources
  }

  instruments(): Instruments | undefined {
    const provider = metrics.getMeterProvider()
    if (provider === this.#meters) return this.#instruments
    this.#meters = provider
    const meter = provider.getMeter(SCOPE)
    this.#instruments =
      meter === createNoopMeter()
        ? undefined
        : getOrInsert(this.#known, provider, () => new Instruments(meter, this.#sources))
    return this.#instruments
  }

  tracer(): Tracer | undefined {
    const provider = trace.getTracerProvider()
    if (provider === this.#tracers) return this.#tracer
    // The API's stand-in is the same object before and after a provider is registered.
    this.#tracer =
      'getDelegateTracer' in provider
        ? (provider as StandIn).getDelegateTracer(SCOPE)
        : provider.getTracer(SCOPE)
    if (this.#tracer !== undefined) this.#tracers = provider
    return this.#tracer
  }
}

/** Every span of this package. docs/telemetry.md lists them with their attributes. */
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
