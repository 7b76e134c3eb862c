/**
 * Whether this process has registered an OpenTelemetry SDK. The answer may change at any time,
 * because an SDK may be registered after a lock was made, so it is looked up at each use: a few
 * property reads, and nothing else happens where there is none.
 */
import {
  createNoopMeter,
  metrics,
  trace,
  type MeterProvider,
  type Tracer,
  type TracerProvider,
} from '@opentelemetry/api'
import { Instruments } from './instruments.ts'

const SCOPE = 'bullmq-redlock'

/**
 * Kept with their provider, so that all locks and workers of a process report through the same
 * ones.
 */
const instrumentsOf = new WeakMap<MeterProvider, Instruments>()

/** The instruments of the meter provider that is registered now. */
export class CurrentInstruments {
  #provider: MeterProvider | undefined
  #instruments: Instruments | undefined
  readonly #onNew: (instruments: Instruments) => void

  /** `onNew` hears of instruments before they are first used here. */
  constructor(onNew: (instruments: Instruments) => void) {
    this.#onNew = onNew
  }

  get(): Instruments | undefined {
    const provider = metrics.getMeterProvider()
    if (provider === this.#provider) return this.#instruments
    this.#provider = provider
    this.#instruments = instrumentsFor(provider)
    if (this.#instruments !== undefined) this.#onNew(this.#instruments)
    return this.#instruments
  }
}

function instrumentsFor(provider: MeterProvider): Instruments | undefined {
  const known = instrumentsOf.get(provider)
  if (known !== undefined) return known
  const meter = provider.getMeter(SCOPE)
  if (meter === createNoopMeter()) return undefined
  const instruments = new Instruments(meter)
  instrumentsOf.set(provider, instruments)
  return instruments
}

/** The tracer of the tracer provider that is registered now. */
export class CurrentTracer {
  #provider: TracerProvider | undefined
  #tracer: Tracer | undefined

  get(): Tracer | undefined {
    const provider = trace.getTracerProvider()
    if (provider === this.#provider) return this.#tracer
    // Until one is registered, the API's stand-in is what is found; it is the same object before
    // and after.
    if (isEmptyProxy(provider)) return undefined
    this.#provider = provider
    this.#tracer = provider.getTracer(SCOPE)
    return this.#tracer
  }
}

interface Proxy {
  getDelegateTracer(name: string): Tracer | undefined
}

function isEmptyProxy(provider: TracerProvider | Proxy): boolean {
  return 'getDelegateTracer' in provider && provider.getDelegateTracer(SCOPE) === undefined
}
