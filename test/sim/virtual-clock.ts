/**
 * The clock of one simulated process, and the door through which the world reaches it.
 *
 *   running ─pause()─▶ paused     (SIGSTOP, a long collection): both of its clocks go on
 *   running ─suspend()─▶ suspended (its virtual machine): the monotonic clock stands still
 *   either ─wake()─▶ running: everything that was missed happens at once, in order or shuffled
 *   any ─crash()─▶ crashed: nothing ever happens in it again
 *
 * Its monotonic clock has a rate of its own; its wall clock wanders within bounds, as one that is
 * kept by NTP does, and may be stepped.
 */
import type { Clock, Timer } from '../../src/clock.ts'
import type { SeededRandom } from './seeded-random.ts'
import type { VirtualTime } from './virtual-time.ts'
import type { WallClock } from './wall-clock.ts'

/**
 * How early and how late a timer may be, as Node's are: measured in whole milliseconds of the loop.
 */
const TIMER_EARLY_MS = 0.9
const TIMER_LATE_MS = 1.5
/** Timers are kept in monotonic time; differences below this are rounding. */
const EPSILON_MS = 1e-6

export interface VirtualClockOptions {
  readonly time: VirtualTime
  readonly random: SeededRandom
  readonly wall: WallClock
  /** Monotonic milliseconds per true millisecond. */
  readonly rate: number
}

export class VirtualClock implements Clock {
  readonly wall: WallClock
  readonly #time: VirtualTime
  readonly #random: SeededRandom
  readonly #rate: number
  readonly #missed: (() => void)[] = []
  readonly #timers = new Set<Timer>()
  #state: 'running' | 'paused' | 'suspended' | 'crashed' = 'running'
  /** Monotonic time and the true time at which it was that. */
  #baseMs: number
  #baseAt: number

  constructor(options: VirtualClockOptions) {
    this.#time = options.time
    this.#random = options.random
    this.#rate = options.rate
    this.wall = options.wall
    this.#baseMs = options.random.between(0, 1e6)
    this.#baseAt = options.time.now
  }

  get state(): 'running' | 'paused' | 'suspended' | 'crashed' {
    return this.#state
  }

  /** Timers that keep the process alive, and have neither run nor been cancelled. */
  get liveTimers(): number {
    return this.#timers.size
  }

  now(): number {
    if (this.#state === 'suspended') return this.#baseMs
    return this.#baseMs + (this.#time.now - this.#baseAt) * this.#rate
  }

  wallNow(): number {
    return Math.floor(this.wall.now())
  }

  random(): number {
    return this.#random.next()
  }

  after(delayMs: number, run: () => void): Timer {
    const jitterMs = this.#random.between(-TIMER_EARLY_MS, TIMER_LATE_MS)
    const due = this.now() + Math.max(0, delayMs + jitterMs)
    let pending: Timer | undefined
    const timer: Timer = {
      cancel: () => {
        pending?.cancel()
        pending = undefined
        this.#timers.delete(timer)
      },
      ref: () => this.#timers.add(timer),
      unref: () => this.#timers.delete(timer),
    }
    const look = (): void => {
      if (pending === undefined) return
      if (due - this.now() > EPSILON_MS) {
        schedule()
        return
      }
      timer.cancel()
      run()
    }
    const schedule = (): void => {
      pending = this.#time.in((due - this.now()) / this.#rate, () => {
        this.enter(look)
      })
    }
    this.#timers.add(timer)
    schedule()
    return timer
  }

  /** What the world does to this process: at once, when it wakes, or never. */
  enter(run: () => void): void {
    if (this.#state === 'running') run()
    else if (this.#state !== 'crashed') this.#missed.push(run)
  }

  pause(): void {
    if (this.#state === 'running') this.#state = 'paused'
  }

  suspend(): void {
    if (this.#state !== 'running') return
    this.#baseMs = this.now()
    this.#state = 'suspended'
  }

  wake(): void {
    if (this.#state === 'running' || this.#state === 'crashed') return
    if (this.#state === 'suspended') this.#baseAt = this.#time.now
    this.#state = 'running'
    const missed = this.#missed.splice(0)
    for (const run of this.#random.chance(0.5) ? this.#random.shuffle(missed) : missed) {
      this.#time.in(0, () => {
        this.enter(run)
      })
    }
  }

  crash(): void {
    this.#state = 'crashed'
    this.#missed.length = 0
    for (const timer of [...this.#timers]) timer.cancel()
  }
}
