/**
 * Who listens: the observer that a lock was given, and the OpenTelemetry SDK that the process has
 * registered. An observer may throw, so it is called inside a guard. An SDK may be registered after
 * a lock was made, so it is looked up at each use: a few property reads, and nothing else happens
 * where there is none.
 */
import {
  createNoopMeter,
  metrics,
  trace,
  type MeterProvider,
  type Tracer,
  type TracerProvider,
} from '@opentelemetry/api'
import type { EventLog } from '../event-log.ts'
import { activities } from './activity.ts'
import { Instruments } from './instruments.ts'
import type { LockObserver, ObservedLock, Observer } from './lock-observer.ts'

/** An observer that cannot throw into the lock; its first error is logged. */
export function observe(
  observer: Observer,
  lock: ObservedLock,
  log: EventLog,
): Required<LockObserver> {
  let reported = false
  const report = (error: unknown): void => {
    if (!reported) log.event('observer:threw', { error: String(error) })
    reported = true
  }
  let opened: LockObserver = {}
  try {
    opened = observer.opened(lock)
  } catch (error) {
    report(error)
  }
  // No rest parameters: this is called for every vote.
  const guard = <A, B, C>(method: ((a: A, b: B, c: C) => void) | undefined) =>
    method === undefined
      ? ignore
      : (a: A, b: B, c: C): void => {
          try {
            method(a, b, c)
          } catch (error) {
            report(error)
          }
        }
  const listens = (): boolean => {
    try {
      return opened.listens?.() ?? true
    } catch (error) {
      report(error)
      return false
    }
  }
  return {
    closed: guard((): void => opened.closed?.()) as () => void,
    listens,
    voted: guard(opened.voted?.bind(opened)),
    attempted: guard(opened.attempted?.bind(opened)) as Required<LockObserver>['attempted'],
    waited: guard(opened.waited?.bind(opened)),
    extended: guard(opened.extended?.bind(opened)),
    ended: guard(opened.ended?.bind(opened)),
    lost: guard(opened.lost?.bind(opened)) as Required<LockObserver>['lost'],
    released: guard(opened.released?.bind(opened)) as Required<LockObserver>['released'],
  }
}

const ignore = (): void => undefined

const SCOPE = 'bullmq-redlock'

/** What reports to the SDK that is registered now, and to the dashboard of this process. */
export abstract class Reporter {
  /** The instruments that were told of this reporter. */
  protected readonly joined: Set<Instruments> = new Set()
  #meters: MeterProvider | undefined
  #instruments: Instruments | undefined
  #tracers: TracerProvider | undefined
  #tracer: Tracer | undefined

  /** Called before instruments are first used here. */
  protected abstract join(instruments: Instruments): void

  /** Whether anything would come of what it is told. */
  listens(): boolean {
    if (activities.hasSubscribers || this.instruments() !== undefined) return true
    return this.tracer() !== undefined
  }

  protected instruments(): Instruments | undefined {
    const provider = metrics.getMeterProvider()
    if (provider === this.#meters) return this.#instruments
    this.#meters = provider
    this.#instruments = instrumentsFor(provider)
    if (this.#instruments !== undefined) {
      this.joined.add(this.#instruments)
      this.join(this.#instruments)
    }
    return this.#instruments
  }

  protected tracer(): Tracer | undefined {
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

interface StandIn extends TracerProvider {
  /** Undefined until a provider is registered. */
  getDelegateTracer(name: string): Tracer | undefined
}

/** By their provider: all locks and workers of a process report through the same ones. */
const instrumentsOf = new WeakMap<MeterProvider, Instruments>()

function instrumentsFor(provider: MeterProvider): Instruments | undefined {
  const known = instrumentsOf.get(provider)
  if (known !== undefined) return known
  const meter = provider.getMeter(SCOPE)
  if (meter === createNoopMeter()) return undefined
  const instruments = new Instruments(meter)
  instrumentsOf.set(provider, instruments)
  return instruments
}
