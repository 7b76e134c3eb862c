/**
 * Listens to the channel for OpenTelemetry: metrics to the meter provider and spans to the tracer
 * provider that the process has registered, and nothing, at next to no cost, where it has
 * registered none. A master that says no is an outcome; only an outage is an error.
 *
 * Spans of a job belong to the trace that BullMQ's own `telemetry` has begun for it. Where the
 * worker has none, they belong to the trace of the job's producer, which BullMQ carries in the
 * job's options.
 */
import {
  context,
  propagation,
  ROOT_CONTEXT,
  SpanStatusCode,
  trace,
  type Attributes,
  type Context,
} from '@opentelemetry/api'
import { listen, type Listener, type Within } from '../channel.ts'
import type { Facts, ToldJob, ToldLock, ToldWorker } from '../facts.ts'
import { messageOf } from '../message-of.ts'
import { ofQueue } from './instruments.ts'
import { Sdk, spanned } from './sdk.ts'
import { integerOption, knownOptions, refuse } from '../options.ts'

/** What is open now, whatever the options are. An SDK may be registered later. */
const locks = new Set<ToldLock>()
const workers = new Set<ToldWorker>()
const sdk = new Sdk({ locks, workers })

/**
 * Reports the locks and workers of this process to OpenTelemetry with these options, in place of
 * the defaults. It does so by itself with the defaults: call it only to change them.
 * @throws TypeError for a bad option.
 * @example
 * ```ts
 * openTelemetry({ resourceClass: (resource) => resource.split('/')[0] ?? '' })
 * ```
 */
export function openTelemetry(options: TelemetryOptions = {}): void {
  listen(reporter(new ResourceClasses(options)), 'opentelemetry')
}

function reporter(classes: ResourceClasses): Listener {
  return {
    hears: (event) =>
      event.endsWith(':opened') ||
      event.endsWith(':closed') ||
      sdk.instruments() !== undefined ||
      sdk.tracer() !== undefined,
    on: { ...CLIENTS, ...leases(classes), ...JOBS },
    // Nothing stands around a job while no tracer is registered.
    get within() {
      return sdk.tracer() === undefined ? undefined : within
    },
  }
}

const CLIENTS: Listener['on'] = {
  'lock:opened': (lock) => {
    locks.add(lock)
    sdk.instruments() // They are there for the first scrape, also of an idle process.
  },
  'lock:closed': (lock) => void locks.delete(lock),
  'worker:opened': (worker) => void workers.add(worker),
  'worker:closed': (worker) => void workers.delete(worker),
  'master:voted': (vote, namespace = '') => {
    sdk.instruments()?.voted(namespace, vote)
  },
}

function leases(classes: ResourceClasses): Listener['on'] {
  const of = (namespace: string | undefined, resources: readonly string[]): Attributes => ({
    'redlock.namespace': namespace ?? '',
    'redlock.resource.class': classes.of(resources),
  })
  const ofLease = (namespace: string | undefined, { lease }: Facts['lease:freed']): Attributes => ({
    ...of(namespace, lease.resources),
    'redlock.fencing_token': lease.fencingToken,
  })
  return {
    'lease:attempted': (attempt, namespace) => {
      const { resources, status, durationMs, fencingToken } = attempt
      const by = { ...of(namespace, resources), 'redlock.outcome': status }
      const also = { ...by, 'redlock.hand_over': attempt.handOver }
      const instruments = sdk.instruments()
      instruments?.record('redlock.lease.acquire.duration', durationMs, also)
      if (status === 'split') instruments?.count('redlock.lease.splits', of(namespace, resources))
      const error = status === 'unreachable' ? 'no lease can be granted' : undefined
      const token = fencingToken !== undefined && { 'redlock.fencing_token': fencingToken }
      spanned(sdk.tracer(), 'redlock.acquire', durationMs, { ...also, ...token }, error)
    },
    'lease:waited': ({ resources, granted, waitMs }, namespace) => {
      const outcome = granted ? 'granted' : 'gave-up'
      const by = { ...of(namespace, resources), 'redlock.outcome': outcome }
      sdk.instruments()?.record('redlock.lease.wait.duration', waitMs, by)
    },
    'lease:extended': (fact, namespace) => {
      const { outcome } = fact
      const by = { ...of(namespace, fact.lease.resources), 'redlock.outcome': outcome }
      sdk.instruments()?.count('redlock.lease.extensions', by)
      const failed = outcome === 'lost' || outcome === 'unreachable'
      const error = failed ? `not extended: ${outcome}` : undefined
      const attributes = { ...by, ...ofLease(namespace, fact) }
      spanned(sdk.tracer(), 'redlock.extend', fact.tookMs, attributes, error)
    },
    'lease:ended': ({ lease, how, reason, heldMs }, namespace) => {
      const by = of(namespace, lease.resources)
      const instruments = sdk.instruments()
      instruments?.record('redlock.lease.hold.duration', heldMs, { ...by, 'redlock.end': how })
      if (reason === undefined) return
      instruments?.count('redlock.lease.losses', { ...by, 'redlock.reason': reason })
    },
    'lease:freed': (fact, namespace) => {
      spanned(sdk.tracer(), 'redlock.release', fact.tookMs, ofLease(namespace, fact))
    },
  }
}

const JOBS: Listener['on'] = {
  'job:started': ({ job, waitedMs, handOffMs }) => {
    const by = ofQueue(job.queueName)
    const instruments = sdk.instruments()
    if (waitedMs !== undefined) instruments?.record('redlock.job.wait.duration', waitedMs, by)
    if (handOffMs === undefined) return
    instruments?.record('redlock.job.handoff.duration', handOffMs, by)
  },
  'job:finished': ({ queue, outcome }) => {
    const by = { ...ofQueue(queue), 'redlock.outcome': outcome }
    sdk.instruments()?.count('redlock.job.ends', by)
  },
  'job:requeued': ({ job, why: { status, delayMs }, tookMs }) => {
    const by = { ...ofQueue(job.queueName), 'redlock.reason': status }
    sdk.instruments()?.count('redlock.job.requeues', by)
    const attributes = { ...by, ...ofJob(job), 'redlock.delay': delayMs / 1_000 }
    spanned(sdk.tracer(), 'redlock.requeue', tookMs, attributes)
  },
  'batch:started': ({ job }) => {
    sdk.instruments()?.count('redlock.job.batches', ofQueue(job.queueName))
  },
}

function within<Result>(what: Within, run: () => Promise<Result>): Promise<Result> {
  return what.kind === 'job' ? inTraceOf(what.job, run) : inSpanOf(what, run)
}

function inTraceOf<Result>(job: ToldJob, run: () => Promise<Result>): Promise<Result> {
  const carried = job.opts.telemetry?.metadata
  if (carried === undefined || sdk.tracer() === undefined) return run()
  if (trace.getActiveSpan() !== undefined) return run()
  return context.with(producersContext(carried), run)
}

/** The spans of whatever a step does come under its own. */
function inSpanOf<Result>(
  { job, step, lease }: Facts['step:started'],
  run: () => Promise<Result>,
): Promise<Result> {
  const tracer = sdk.tracer()
  if (tracer === undefined) return run()
  const own = { 'redlock.step': step, 'redlock.fencing_token': lease.fencingToken }
  const attributes = { ...ofQueue(job.queueName), ...ofJob(job), ...own }
  const span = tracer.startSpan('redlock.step', { attributes })
  const running = context.with(trace.setSpan(context.active(), span), run)
  running.then(
    () => {
      span.end()
    },
    (error: unknown) => {
      const message = messageOf(error)
      span.recordException(error instanceof Error ? error : message)
      span.setStatus({ code: SpanStatusCode.ERROR, message })
      span.end()
    },
  )
  return running
}

function ofJob({ id }: ToldJob): Attributes {
  return { 'messaging.message.id': id ?? '' }
}

/** BullMQ carries what a propagator has written, as JSON. */
function producersContext(carried: string): Context {
  try {
    return propagation.extract(ROOT_CONTEXT, JSON.parse(carried))
  } catch {
    return context.active() // Written by a telemetry that is not OpenTelemetry's.
  }
}

/** How resources become labels. */
export interface TelemetryOptions {
  /**
   * The class of a resource. Whatever it returns becomes a label of metrics and an attribute of
   * spans; of several resources under one lease the first by name is asked for.
   * @defaultValue the part before the first `:`
   */
  readonly resourceClass?: (resource: string) => string
  /** The most classes that are told apart; all others are `other`. @defaultValue 20 */
  readonly maxResourceClasses?: number
}

const OTHER = 'other'
const MAX_CLASSES = 20
const MAX_LENGTH = 64

/**
 * Resources as labels: their number has no bound, that of their classes has one. A class is
 * `customer` for `customer:42`; what has no class, and every class beyond the bound, is `other`.
 */
export class ResourceClasses {
  readonly #classOf: (resource: string) => string
  readonly #limit: number
  readonly #known = new Set<string>()

  /** @throws TypeError for a bad option. */
  constructor(options: TelemetryOptions = {}) {
    knownOptions({ ...options }, { resourceClass: true, maxResourceClasses: true })
    const { resourceClass = beforeColon, maxResourceClasses } = options
    if (typeof resourceClass !== 'function') {
      refuse('resourceClass', 'a function of the resource', resourceClass)
    }
    this.#classOf = resourceClass
    this.#limit = integerOption('maxResourceClasses', maxResourceClasses ?? MAX_CLASSES, 0, 1_000)
  }

  of(resources: readonly string[]): string {
    let found: string
    try {
      found = this.#classOf(resources[0] ?? '').slice(0, MAX_LENGTH)
    } catch {
      return OTHER // A user's function that throws must not cost a measurement.
    }
    if (this.#known.has(found)) return found
    if (found === '' || this.#known.size >= this.#limit) return OTHER
    this.#known.add(found)
    return found
  }
}

/** A resource without a `:` may be anything, a customer's name for example: it has no class. */
function beforeColon(resource: string): string {
  return resource.slice(0, Math.max(0, resource.indexOf(':')))
}
