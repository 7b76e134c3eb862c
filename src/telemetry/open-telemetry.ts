/**
 * Reports a lock to OpenTelemetry: metrics to the meter provider and spans to the tracer provider
 * that the process has registered, and nothing, at next to no cost, where it has registered none. A
 * master that says no is an outcome; only an outage is an error.
 */
import type { Attributes } from '@opentelemetry/api'
import type {
  ExtendResult,
  LeaseEnd,
  LockObserver,
  LossReason,
  ObservedAttempt,
  ObservedLease,
  ObservedLock,
  Observer,
  Question,
  VoteOutcome,
} from './lock-observer.ts'
import { activities } from './activity.ts'
import type { Instruments, Tally } from './instruments.ts'
import { Reporter } from './listeners.ts'
import { ResourceClasses, type ResourceClassOptions } from './resource-classes.ts'
import { spanned } from './spans.ts'

/** How resources become labels. */
export type TelemetryOptions = ResourceClassOptions

/**
 * The observer that a Redlock has unless it is given another.
 * @throws TypeError for a bad option.
 * @example
 * ```ts
 * const resourceClass = (name: string): string => name.split('/')[0] ?? ''
 * new Redlock({ masters, observer: openTelemetry({ resourceClass }) })
 * ```
 */
export function openTelemetry(options: TelemetryOptions = {}): Observer {
  const classes = new ResourceClasses(options)
  return { opened: (lock) => new ReportedLock(lock, classes) }
}

class ReportedLock extends Reporter implements LockObserver {
  readonly #lock: ObservedLock
  readonly #classes: ResourceClasses
  #tallies = new Map<string, Map<string, Tally>>()

  constructor(lock: ObservedLock, classes: ResourceClasses) {
    super()
    this.#lock = lock
    this.#classes = classes
    this.instruments()
  }

  closed(): void {
    for (const instruments of this.joined) instruments.locks.delete(this.#lock)
  }

  voted(master: string, question: Question, outcome: VoteOutcome): void {
    const instruments = this.instruments()
    if (instruments === undefined) return
    const ofMaster = this.#tallies.get(master) ?? new Map<string, Tally>()
    if (ofMaster.size === 0) this.#tallies.set(master, ofMaster)
    const key = `${question} ${outcome}`
    let tally = ofMaster.get(key)
    if (tally === undefined) {
      tally = instruments.tally(this.#lock.namespace, master, question, outcome)
      ofMaster.set(key, tally)
    }
    tally.count++
  }

  attempted({ resources, status, handOver, fencingToken, durationMs }: ObservedAttempt): void {
    activities.publish({ kind: 'attempted', namespace: this.#namespace, outcome: status })
    const instruments = this.instruments()
    const tracer = this.tracer()
    if (instruments === undefined && tracer === undefined) return
    const also = { 'redlock.outcome': status, 'redlock.hand_over': handOver }
    const by = this.#labels(resources, also)
    instruments?.record('redlock.lease.acquire.duration', durationMs, by)
    if (status === 'split') instruments?.count('redlock.lease.splits', this.#labels(resources))
    const error = status === 'unreachable' ? 'too few masters can vote' : undefined
    const token = fencingToken !== undefined && { 'redlock.fencing_token': fencingToken }
    spanned(tracer, 'redlock.acquire', durationMs, { ...by, ...token }, error)
  }

  waited(resources: readonly string[], granted: boolean, waitMs: number): void {
    const instruments = this.instruments()
    if (instruments === undefined) return
    const outcome = granted ? 'granted' : 'gave-up'
    const by = this.#labels(resources, { 'redlock.outcome': outcome })
    instruments.record('redlock.lease.wait.duration', waitMs, by)
  }

  extended(lease: ObservedLease, outcome: ExtendResult, tookMs: number): void {
    activities.publish({ kind: 'extended', namespace: this.#namespace, outcome })
    const instruments = this.instruments()
    const tracer = this.tracer()
    if (instruments === undefined && tracer === undefined) return
    const by = this.#labels(lease.resources, { 'redlock.outcome': outcome })
    instruments?.count('redlock.lease.extensions', by)
    const failed = outcome === 'lost' || outcome === 'unreachable'
    const attributes = { ...by, 'redlock.fencing_token': lease.fencingToken }
    const error = failed ? `not extended: ${outcome}` : undefined
    spanned(tracer, 'redlock.extend', tookMs, attributes, error)
  }

  ended({ resources, fencingToken }: ObservedLease, how: LeaseEnd, heldMs: number): void {
    activities.publish({ kind: 'ended', namespace: this.#namespace, fencingToken, how })
    const instruments = this.instruments()
    if (instruments === undefined) return
    const by = this.#labels(resources, { 'redlock.end': how })
    instruments.record('redlock.lease.hold.duration', heldMs, by)
  }

  lost({ resources, fencingToken }: ObservedLease, reason: LossReason): void {
    const what = { resources, fencingToken, reason }
    activities.publish({ kind: 'lost', namespace: this.#namespace, ...what })
    const by = this.#labels(resources, { 'redlock.reason': reason })
    this.instruments()?.count('redlock.lease.losses', by)
  }

  released({ resources, fencingToken }: ObservedLease, tookMs: number): void {
    const tracer = this.tracer()
    if (tracer === undefined) return
    const attributes = this.#labels(resources, { 'redlock.fencing_token': fencingToken })
    spanned(tracer, 'redlock.release', tookMs, attributes)
  }

  protected join(instruments: Instruments): void {
    instruments.locks.add(this.#lock)
    this.#tallies = new Map()
  }

  get #namespace(): string {
    return this.#lock.namespace
  }

  #labels(resources: readonly string[], also: Attributes = {}): Attributes {
    return {
      'redlock.namespace': this.#namespace,
      'redlock.resource.class': this.#classes.of(resources),
      ...also,
    }
  }
}
