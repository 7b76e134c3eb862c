/**
 * Notices a master whose clock jumps. Redis expires keys by the wall clock: a step forward drops
 * leases before their time. Grants and extensions carry the server's time. Where its distance to
 * *both* of our clocks moves by more than two clocks of allowed drift can move apart, the server's
 * clock was set. Then the master is not counted for as long as the longest lease may last. (Our
 * monotonic clock alone stands still while this machine sleeps, our wall clock alone may be set.)
 *
 * A client that has just started has seen no step. So a master is out of line, and does not count,
 * as long as its clock is far from those of a quorum. No lease then rests on a clock that will be
 * set right by a step.
 */
import { instant, type Instant } from '../../clock.ts'
import { trustFrom } from '../../lock/trust.ts'
import type { Master } from '../wire/master.ts'
import type { LockFleet } from './fleet.ts'

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

/** By how much a server's clock was set between two samples; 0 where drift explains it. Pure. */
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

/** How far two servers' clocks are apart. One of ours may have been set between the samples. */
function apartMs(a: ClockSample, b: ClockSample): number {
  const byMonotonic = Math.abs(a.toMonotonicMs - b.toMonotonicMs)
  return Math.min(byMonotonic, Math.abs(a.toWallMs - b.toWallMs))
}

/** Clocks also drift apart, slowly. */
const COMPARE_MS = 1_000

interface Watched {
  reference: ClockSample
  /** On `Clock.now()`; 0 where its clock has not jumped. */
  suspendedUntil: number
  /** It is far from the clocks of a quorum of the masters that were seen. */
  isOutOfLine: boolean
}

export class ClockWatch {
  readonly #fleet: LockFleet
  readonly #toleranceMs: number
  readonly #watched = new Map<Master, Watched>()
  #comparedAt = -Infinity
  /** Some master is suspended or out of line, or was a moment ago. */
  distrusts = false

  constructor(fleet: LockFleet) {
    const { leaseMs, driftFactor } = fleet.settings
    this.#fleet = fleet
    // A smaller jump is covered by the allowance that every lease makes for drift.
    const trusted = trustFrom({ now: 0, wallNow: 0 }, leaseMs, driftFactor)
    this.#toleranceMs = Math.max(5, (leaseMs - trusted.until) / 2)
  }

  /** Of a reply to what was sent at `before`. */
  readonly observe = (master: Master, serverMs: number, before: Instant): void => {
    const { channel, quarantineMs, settings } = this.#fleet
    const { clock, driftFactor } = settings
    const after = instant(clock)
    const sample: ClockSample = {
      toMonotonicMs: serverMs - (before.now + after.now) / 2,
      toWallMs: serverMs - (before.wallNow + after.wallNow) / 2,
      uncertaintyMs: (after.now - before.now) / 2 + 1,
      at: after.now,
    }
    const known = this.#watched.get(master)
    if (known === undefined) {
      this.#watched.set(master, { reference: sample, suspendedUntil: 0, isOutOfLine: false })
      this.#compare(sample.at)
      return
    }
    const { reference } = known
    const jumpedMs = jumpMs(reference, sample, driftFactor, this.#toleranceMs)
    // rule: clock-jump-suspends
    if (jumpedMs !== 0) {
      known.suspendedUntil = after.now + quarantineMs
      channel.tell('master:clock-jump', { master: master.name, jumpedMs })
    }
    // The old reference ages by the allowed drift; a sample that is as exact takes its place.
    const agedMs = reference.uncertaintyMs + driftFactor * (sample.at - reference.at)
    if (jumpedMs !== 0 || sample.uncertaintyMs <= agedMs) known.reference = sample
    if (jumpedMs !== 0 || sample.at - this.#comparedAt > COMPARE_MS) this.#compare(sample.at)
  }

  /** How far at least our wall clock is ahead of the server's; undefined before it has answered. */
  aheadMs(master: Master): number | undefined {
    const reference = this.#watched.get(master)?.reference
    if (reference === undefined) return undefined
    const { now, wallNow } = instant(this.#fleet.settings.clock)
    // A reply may have been late on its way here.
    // rule: late-reply-puts-no-clock-ahead
    return wallNow - (now + reference.toMonotonicMs) - reference.uncertaintyMs
  }

  isOutOfLine(master: Master): boolean {
    return this.#watched.get(master)?.isOutOfLine === true
  }

  /** With fewer clocks, each is far from a quorum, and that says nothing of any. */
  get areCompared(): boolean {
    return this.#watched.size >= this.#fleet.quorum
  }

  /** Milliseconds for which the master does not grant; 0 when it does. */
  suspendedMs(master: Master): number {
    const known = this.#watched.get(master)
    // rule: master-out-of-line-grants-nothing
    if (known?.isOutOfLine === true) return this.#fleet.quarantineMs
    if (known === undefined || known.suspendedUntil === 0) return 0
    return Math.max(0, Math.ceil(known.suspendedUntil - this.#fleet.settings.clock.now()))
  }

  #compare(at: number): void {
    this.#comparedAt = at
    const { quorum, settings } = this.#fleet
    const seen = [...this.#watched.values()]
    for (const one of seen) {
      const apart = seen.map(({ reference }) => apartMs(one.reference, reference))
      one.isOutOfLine = apart.filter((ms) => ms <= settings.maxClockSkewMs).length < quorum
    }
    this.distrusts = seen.some((one) => one.isOutOfLine || one.suspendedUntil > at)
  }
}
