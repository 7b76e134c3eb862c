/** What a call that acquires may be given, checked. */
import { integerOption, knownOptions, objectOption, refuse } from '../options.ts'
import { checkedSlots, type Slots } from '../slots.ts'

export const MIN_LEASE_MS = 100

/** The options of one lease. */
export interface LeaseOptions {
  /** How long the lease lasts without an extension. @defaultValue the service's `leaseMs` */
  readonly leaseMs?: number
  /**
   * Renew at every third of the lease until it is released or lost.
   * @defaultValue false (`using` turns it on)
   */
  readonly autoExtend?: boolean
  /** The longest time to hold it, extensions included. @defaultValue the service's `maxHoldMs` */
  readonly maxHoldMs?: number
  /** How often the lease may be extended. @defaultValue the service's `maxExtensions` */
  readonly maxExtensions?: number
  /**
   * How many holders a resource may have at once: a number, or a map by the names of resources
   * (1 for others). Of several resources one slot of each is taken, all or nothing. Every caller
   * must give the same number for a resource. Each holder has its own slot (`resource#1` …), and
   * fencing tokens increase per slot.
   * @defaultValue 1
   */
  readonly slots?: Slots
}

/** What `acquire` and `using` take: the options of a lease, and how long to wait for it. */
export interface AcquireOptions extends LeaseOptions {
  /**
   * How long to keep trying. 0 tries once.
   * @defaultValue one lease length: a dead holder's lease is over by then
   */
  readonly waitMs?: number
  /** Ends the waiting; a lease that was granted meanwhile is released. */
  readonly signal?: AbortSignal
}

const OF_A_LEASE: Record<keyof LeaseOptions, true> = {
  ...{ leaseMs: true, slots: true, autoExtend: true, maxHoldMs: true, maxExtensions: true },
}
const OF_WAITING: Record<keyof AcquireOptions, true> = { ...OF_A_LEASE, waitMs: true, signal: true }

/**
 * `waiting`: the call has `waitMs` and `signal` too.
 * @throws TypeError for a number, which other libraries take as the duration, and for an option
 * that does not exist or is no signal.
 */
export function callOptions(options: unknown, waiting: boolean): void {
  objectOption(options, 'an object, such as { leaseMs: 5_000 }')
  knownOptions(options, waiting ? OF_WAITING : OF_A_LEASE)
  const signal = options['signal'] as Partial<AbortSignal> | null | undefined
  if (signal && typeof signal.throwIfAborted !== 'function') {
    refuse('signal', 'an AbortSignal, such as the `signal` of an AbortController', signal)
  }
}

/** How long a lease may last, and who extends it. */
export type LeaseTerms = Required<LeaseOptions>
export type LeaseDefaults = Omit<LeaseTerms, 'autoExtend' | 'slots'> & { maxLeaseMs: number }

/** @throws TypeError for a bad option, naming it. */
export function leaseTerms(options: LeaseOptions, defaults: LeaseDefaults): LeaseTerms {
  const any = Number.MAX_SAFE_INTEGER
  const leaseMs = leaseOption(options.leaseMs ?? defaults.leaseMs, defaults.maxLeaseMs)
  const maxHoldMs = options.maxHoldMs ?? defaults.maxHoldMs
  const maxExtensions = options.maxExtensions ?? defaults.maxExtensions
  return {
    leaseMs,
    autoExtend: options.autoExtend ?? false,
    slots: checkedSlots(options.slots ?? 1),
    maxHoldMs: integerOption('maxHoldMs', maxHoldMs, leaseMs, any),
    maxExtensions: integerOption('maxExtensions', maxExtensions, 0, any),
  }
}

export interface AcquireTerms {
  readonly terms: LeaseTerms
  readonly waitMs: number
  readonly signal: AbortSignal | undefined
}

/** @throws TypeError for a bad option, naming it; the signal's reason where it has aborted. */
export function acquireTerms(options: AcquireOptions, defaults: LeaseDefaults): AcquireTerms {
  callOptions(options, true)
  const terms = leaseTerms(options, defaults)
  const { waitMs = terms.leaseMs, signal } = options
  integerOption('waitMs', waitMs, 0, Number.MAX_SAFE_INTEGER)
  // rule: aborted-call-joins-no-lease
  signal?.throwIfAborted()
  return { terms, waitMs, signal }
}

/** @throws TypeError for a lease too short to be trusted, or longer than the fleet allows. */
export function leaseOption(leaseMs: unknown, maxLeaseMs: number): number {
  if (typeof leaseMs === 'number' && leaseMs > maxLeaseMs) {
    const expected = `at most \`maxLeaseMs\` (${maxLeaseMs}, one value for the whole fleet)`
    refuse('leaseMs', expected, leaseMs)
  }
  return integerOption('leaseMs', leaseMs, MIN_LEASE_MS, maxLeaseMs)
}
