/**
 * Notices a master whose clock jumps. Redis expires keys by the wall clock: a step forward drops leases before their
 * time. Every reply carries the server's time; where its distance to *both* of our clocks moves by more than two
 * clocks of allowed drift can move apart, the server's clock was set, and the master is not counted for as long as
 * the longest lease may last. (Our monotonic clock alone stands still while this machine sleeps, our wall clock alone
 * may have been set itself.)
 */
import type { Master } from '../../redis/master.ts'
import type { Instant } from '../../lock/trust.ts'

/** A server's clock as seen through one reply. */
export interface ClockSample {
  /** Server time minus our monotonic clock, in the middle of the call. */
  readonly toMonotonicMs: number
  /** Server time minus our wall clock, in the middle of the call. */
  readonly toWallMs: number
  /** Half of the call's duration, plus the resolution of the server's time. */
  readonly uncertaintyMs: number
  readonly at: number
}

export function clockSample(serverMs: number, before: Instant, after: Instant): ClockSample {
  return {
    toMonotonicMs: serverMs - (before.now + after.now) / 2,
    toWallMs: serverMs - (before.wallNow + after.wallNow) / 2,
    uncertaintyMs: (after.now - before.now) / 2 + 1,
    at: after.now,
  }
}

/** By how much the server's clock was set between two samples; 0 when drift explains the difference. Pure. */
export function jumpMs(
  from: ClockSample,
  to: ClockSample,
  driftFactor: number,
  toleranceMs: number,
): number {
  const explainedMs =
    from.uncertaintyMs + to.uncertaintyMs + driftFactor * Math.abs(to.at - from.at) + toleranceMs
  const byMonotonic = to.toMonotonicMs - from.toMonotonicMs
  const byWall = to.toWallMs - from.toWallMs
  const smaller = Math.abs(byMonotonic) < Math.abs(byWall) ? byMonotonic : byWall
  return Math.abs(smaller) > explainedMs ? smaller : 0
}

export interface ClockWatchOptions {
  readonly driftFactor: number
  readonly toleranceMs: number
  readonly suspensionMs: number
  jumped(master: Master, jumpedMs: number): void
}

export class ClockWatch {
  readonly #options: ClockWatchOptions
  readonly #references = new Map<Master, ClockSample>()
  readonly #suspendedUntil = new Map<Master, number>()

  constructor(options: ClockWatchOptions) {
    this.#options = options
  }

  observe(master: Master, serverMs: number, before: Instant, after: Instant): void {
    const { driftFactor, toleranceMs, suspensionMs } = this.#options
    const sample = clockSample(serverMs, before, after)
    const reference = this.#references.get(master)
    if (reference === undefined) {
      this.#references.set(master, sample)
      return
    }
    const jumpedMs = jumpMs(reference, sample, driftFactor, toleranceMs)
    if (jumpedMs !== 0) {
      this.#suspendedUntil.set(master, after.now + suspensionMs)
      this.#options.jumped(master, jumpedMs)
    }
    // The old reference ages by the allowed drift; a sample that is at least as exact takes its place.
    const agedMs = reference.uncertaintyMs + driftFactor * (sample.at - reference.at)
    if (jumpedMs !== 0 || sample.uncertaintyMs <= agedMs) this.#references.set(master, sample)
  }

  /** Milliseconds for which the master does not count; 0 when it does. */
  suspendedMs(master: Master, now: number): number {
    if (this.#suspendedUntil.size === 0) return 0
    const until = this.#suspendedUntil.get(master)
    if (until === undefined) return 0
    if (until > now) return Math.ceil(until - now)
    this.#suspendedUntil.delete(master)
    return 0
  }
}
