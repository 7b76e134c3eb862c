/**
 * Notices a master whose clock jumps. Redis expires keys by the wall clock: a step forward drops
 * leases before their time. Every reply carries the server's time; where its distance to *both* of
 * our clocks moves by more than two clocks of allowed drift can move apart, the server's clock was
 * set, and the master is not counted for as long as the longest lease may last. (Our monotonic
 * clock alone stands still while this machine sleeps, our wall clock alone may have been set
 * itself.)
 *
 * A client that has just started has seen no step. So a master is out of line, and does not count,
 * as long as its clock is far from those of a quorum. No lease then rests on a clock that will be
 * set right by a step.
 */
import type { Master } from '../wire/master.ts'
import { instant, type Clock, type Instant } from '../../clock.ts'

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

/**
 * By how much the server's clock was set between two samples; 0 when drift explains the difference.
 * Pure.
 */
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

/**
 * How far two servers' clocks are apart. One of our own clocks may have been set between the
 * samples.
 */
function apartMs(a: ClockSample, b: ClockSample): number {
  const byMonotonic = Math.abs(a.toMonotonicMs - b.toMonotonicMs)
  return Math.min(byMonotonic, Math.abs(a.toWallMs - b.toWallMs))
}

/** Clocks also drift apart, slowly. */
const COMPARE_MS = 1_000

export interface ClockWatchOptions {
  readonly clock: Clock
  readonly driftFactor: number
  readonly toleranceMs: number
  readonly suspensionMs: number
  /** How far the clocks of two masters may be apart. */
  readonly maxApartMs: number
  readonly quorum: number
  jumped(master: Master, jumpedMs: number): void
}

export class ClockWatch {
  readonly #options: ClockWatchOptions
  readonly #references = new Map<Master, ClockSample>()
  readonly #suspendedUntil = new Map<Master, number>()
  #outOfLine: ReadonlySet<Master> = new Set()
  #comparedAt = -Infinity

  constructor(options: ClockWatchOptions) {
    this.#options = options
  }

  /** Of a reply to what was sent at `before`. */
  readonly observe = (master: Master, serverMs: number, before: Instant): void => {
    const { clock, driftFactor, toleranceMs, suspensionMs } = this.#options
    const after = instant(clock)
    const sample: ClockSample = {
      toMonotonicMs: serverMs - (before.now + after.now) / 2,
      toWallMs: serverMs - (before.wallNow + after.wallNow) / 2,
      uncertaintyMs: (after.now - before.now) / 2 + 1,
      at: after.now,
    }
    const reference = this.#references.get(master)
    if (reference === undefined) {
      this.#references.set(master, sample)
      this.#compare(sample.at)
      return
    }
    const jumpedMs = jumpMs(reference, sample, driftFactor, toleranceMs)
    // rule: clock-jump-suspends
    if (jumpedMs !== 0) {
      this.#suspendedUntil.set(master, after.now + suspensionMs)
      this.#options.jumped(master, jumpedMs)
    }
    // The old reference ages by the allowed drift; a sample that is at least as exact takes its
    // place.
    const agedMs = reference.uncertaintyMs + driftFactor * (sample.at - reference.at)
    if (jumpedMs !== 0 || sample.uncertaintyMs <= agedMs) this.#references.set(master, sample)
    if (jumpedMs !== 0 || sample.at - this.#comparedAt > COMPARE_MS) this.#compare(sample.at)
  }

  /** How far at least our wall clock is ahead of the server's; undefined before it has answered. */
  aheadMs(master: Master): number | undefined {
    const reference = this.#references.get(master)
    if (reference === undefined) return undefined
    const { now, wallNow } = instant(this.#options.clock)
    // A reply may have been late on its way here.
    // rule: late-reply-puts-no-clock-ahead
    return wallNow - (now + reference.toMonotonicMs) - reference.uncertaintyMs
  }

  /** Whether its clock is far from those of a quorum of the masters that were seen. */
  isOutOfLine(master: Master): boolean {
    return this.#outOfLine.has(master)
  }

  /** Milliseconds for which the master does not grant; 0 when it does. */
  suspendedMs(master: Master): number {
    // rule: master-out-of-line-grants-nothing
    if (this.#outOfLine.has(master)) return this.#options.suspensionMs
    if (this.#suspendedUntil.size === 0) return 0
    const until = this.#suspendedUntil.get(master)
    if (until === undefined) return 0
    const now = this.#options.clock.now()
    if (until > now) return Math.ceil(until - now)
    this.#suspendedUntil.delete(master)
    return 0
  }

  #compare(at: number): void {
    this.#comparedAt = at
    const seen = [...this.#references]
    const { maxApartMs, quorum } = this.#options
    const near = (a: ClockSample): number =>
      seen.filter(([, b]) => apartMs(a, b) <= maxApartMs).length
    this.#outOfLine = new Set(seen.filter(([, a]) => near(a) < quorum).map(([master]) => master))
  }
}
