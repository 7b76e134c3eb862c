/**
 * How long a holder may trust its lease: from before the first command of the attempt left, for
 * the lease's length less an allowance for clocks that run at different rates (the Redlock text's
 * "minimum validity"). When it is renewed, and for how long it is kept for waiters. Pure.
 */
import type { Instant } from '../clock.ts'

/** The end of trust on both clocks; whichever comes first ends it. */
export interface Trust {
  /** On `Clock.now()`. */
  readonly until: number
  /** On `Clock.wallNow()`: the monotonic clock stands still while a machine is suspended. */
  readonly wallUntil: number
}

/** Redis expires keys to the millisecond; 2 ms cover that and the smallest lease's rounding. */
export function trustFrom(start: Instant, leaseMs: number, driftFactor: number): Trust {
  // rule: drift-margin
  const trustedMs = leaseMs - (Math.ceil(leaseMs * driftFactor) + 2)
  return { until: start.now + trustedMs, wallUntil: start.wallNow + trustedMs }
}

/** Milliseconds of trust left, 0 when it is over. */
export function remainingMs(trust: Trust, at: Instant): number {
  // rule: either-clock-ends-trust
  return Math.max(0, Math.min(trust.until - at.now, trust.wallUntil - at.wallNow))
}

/** With this much of it left, a lease is as good as new: no round trip is spent on it. */
export const FRESH = 0.9

/**
 * The later of two ends of trust. Both of its clocks are of one instant: the later end on each
 * clock by itself would outlast both, where one clock was set between them.
 */
export function longer(a: Trust, b: Trust): Trust {
  // rule: longer-trust-is-of-one-instant
  return b.until >= a.until ? b : a
}

/** How long a master without memory must not grant: the longest lease, by the slowest clock. */
export function quarantineMs(maxLeaseMs: number, driftFactor: number): number {
  return Math.ceil(maxLeaseMs * (1 + driftFactor)) + 2
}

/** A lease is renewed when this part of it is gone, which leaves time for failed tries. */
export const RENEWED_AT: number = 1 / 3

/**
 * When a lease with `leftMs` of it left is renewed first: as above, but one that was passed on old
 * not at once, since the work may be over in a moment and the next one older still.
 */
export function firstRenewalMs(leaseMs: number, leftMs: number): number {
  return Math.max(leaseMs / 10, leftMs - leaseMs + leaseMs * RENEWED_AT)
}

/** Whether work may begin under a lease that is kept alive: there is time for failed tries. */
export function canBeRenewed(leaseMs: number, leftMs: number): boolean {
  return leftMs >= leaseMs / 2
}

/** After a failed renewal: soon, sooner as the trust runs out, but not in a tight loop. */
export function retryAfterMs(leaseMs: number, leftMs: number): number {
  return Math.max(10, Math.min(leaseMs / 10, leftMs / 4))
}

const TRIPS_PER_TURN = 4
/** Processes are held up now and then for longer than their trips take. */
const MIN_TURN_MS = 50

/** After a release: how long a waiter has to acquire before the next one, and any client, may. */
export function turnMs(tripMs: number): number {
  return Math.ceil(Math.max(MIN_TURN_MS, TRIPS_PER_TURN * tripMs))
}
