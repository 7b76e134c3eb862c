/** What a call that acquires may be given. */
import { knownOptions, objectOption } from '../options.ts'
import type { Slots } from '../slots.ts'

/** The options of one lease. */
export interface LeaseOptions {
  /**
   * How long the lease lasts without an extension.
   * @defaultValue the service's `leaseMs`
   */
  readonly leaseMs?: number
  /**
   * Renew at every third of the lease until it is released or lost.
   * @defaultValue false (`using` turns it on)
   */
  readonly autoExtend?: boolean
  /** The longest time to hold it, extensions included. @defaultValue the service's `maxHoldMs` */
  readonly maxHoldMs?: number
  /**
   * How often the lease may be extended.
   * @defaultValue the service's `maxExtensions`
   */
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

const OF_A_LEASE: Readonly<Record<keyof LeaseOptions, true>> = {
  leaseMs: true,
  slots: true,
  autoExtend: true,
  maxHoldMs: true,
  maxExtensions: true,
}
const OF_WAITING: Readonly<Record<keyof AcquireOptions, true>> = {
  ...OF_A_LEASE,
  waitMs: true,
  signal: true,
}

/**
 * `waiting`: the call has `waitMs` and `signal` too.
 * @throws TypeError for a number, which other libraries take as the duration, and for an option
 * that does not exist.
 */
export function callOptions(options: unknown, waiting: boolean): void {
  objectOption(options, 'an object, such as { leaseMs: 5_000 }')
  knownOptions(options, waiting ? OF_WAITING : OF_A_LEASE)
}
