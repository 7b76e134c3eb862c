/** A lease as its holder sees it, for any lock service. */
import type { MasterAnswer } from '../lock-errors.ts'

/** What became of an extension. */
export type ExtendOutcome =
  /** A quorum extended the lease. */
  | { readonly status: 'extended'; readonly remainingMs: number }
  /** No quorum answered in time: the lease stands for what is left of it; try again. */
  | {
      readonly status: 'unreachable'
      readonly remainingMs: number
      readonly answers: readonly MasterAnswer[]
    }
  /** `maxHoldMs` or `maxExtensions` is reached: the lease stands for what is left of it. */
  | {
      readonly status: 'limit'
      readonly remainingMs: number
      readonly option: 'maxHoldMs' | 'maxExtensions'
    }

/**
 * A lease that was granted. It ends by itself one `leaseMs` after its last extension.
 * @example
 * ```ts
 * await using lease = await redlock.acquire('customer:42', { autoExtend: true })
 * await charge(order, { signal: lease.signal, fencingToken: lease.fencingToken })
 * lease.assertHeld() // throws a LeaseLostError if it is over
 * ```
 */
export interface Lease extends AsyncDisposable {
  /** For people: the resource's name, or several joined by ` + `. */
  readonly resource: string
  /** What the lease covers, sorted. */
  readonly resources: readonly string[]
  /** Secret value that names this lease on the masters, with the owner's name behind an `@`. */
  readonly token: string
  /** Larger than that of each earlier lease on the resource. Your store compares it. */
  readonly fencingToken: number
  /** The length of the lease from its grant or its last extension. */
  readonly leaseMs: number
  /** Aborts with a `LeaseLostError` at the latest when the lease may no longer be trusted. */
  readonly signal: AbortSignal
  /** The end of trust on the monotonic clock, comparable with `performance.now()`. */
  readonly trustedUntil: number
  /** Milliseconds for which the lease may still be trusted; 0 when it is lost or released. */
  remainingMs(): number
  /**
   * Does nothing while the lease is held. It reads the clocks itself: timers may be late.
   * @throws LeaseLostError when the lease is over.
   */
  assertHeld(): void
  /**
   * Renews the lease for its full length on a quorum. Calls that overlap share one round. A lease
   * may end up longer than asked for, never shorter.
   * @throws LeaseLostError when the lease is over, or a majority of the masters gave it up.
   */
  extend(): Promise<ExtendOutcome>
  /**
   * Gives the resource back, on every master. Safe to call more than once and after a loss; never
   * throws, and waits for a quorum of answers or one `masterTimeoutMs`, whichever is first.
   */
  release(): Promise<void>
}
