import type { VirtualTime } from './virtual-time.ts'

/** Simulated time begins here, so that microsecond counters have their real size. */
export const EPOCH_MS = Date.UTC(2026, 0, 1)

export interface WallClockOptions {
  readonly time: VirtualTime
  /** How far it is off, before any step. */
  readonly offsetMs: number
  /** How much faster or slower than true time it runs, as a fraction. */
  readonly slew: number
  /** How far it wanders before it is slewed back the other way. */
  readonly wanderMs: number
}

/**
 * Wall clock of one machine in milliseconds with fractions. It runs fast for a while, then slow, as
 * one that is disciplined by NTP does, so that a long run has drift without an offset that grows
 * for ever.
 */
export class WallClock {
  readonly #options: WallClockOptions
  #steppedMs = 0

  constructor(options: WallClockOptions) {
    this.#options = options
  }

  now(): number {
    const { time, offsetMs, slew, wanderMs } = this.#options
    return EPOCH_MS + time.now + offsetMs + this.#steppedMs + wander(time.now * slew, wanderMs)
  }

  step(byMs: number): void {
    this.#steppedMs += byMs
  }

  /** An administrator sets it right: steps undone. */
  repair(): void {
    this.#steppedMs = 0
  }
}

/** A triangle wave of slope ±1 between -amplitude and +amplitude. */
function wander(way: number, amplitude: number): number {
  if (amplitude === 0) return 0
  const period = 4 * amplitude
  const phase = (((way + amplitude) % period) + period) % period
  return phase < 2 * amplitude ? phase - amplitude : 3 * amplitude - phase
}
