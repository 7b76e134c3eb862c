/**
 * Chooses faults at random, a few at a time and never two for one target, until it is told to stop.
 * Now and then there is a truce: no server, network or process is hurt, and the lines are watched.
 * Jobs are removed all the time.
 */
import { SeededRandom } from '../sim/seeded-random.ts'
import type { Fault, Target } from './fault.ts'
import type { World } from './world.ts'

/** A truce is longer than the longest standstill that is allowed. */
const TRUCE = { everyMs: 12_000, ms: 7_000 }
const TEND_MS = 1_000
const PAUSE_MS = { min: 20, max: 500 }
/**
 * Now and then nothing is hurt for a while, so that the system gets out of its trouble and into it
 * again.
 */
const CALM = { chance: 0.03, ms: 1_500 }

export interface Tally {
  /** Was seen to strike. */
  struck: number
  /** Was done while nothing was in its way, so it does not count. */
  unseen: number
}

export class Nemesis {
  readonly tallies = new Map<string, Tally>()
  readonly failures: string[] = []
  readonly #world: World
  readonly #random: SeededRandom
  readonly #signal: AbortSignal
  readonly #busy = new Set<string>()
  /** Faults under way that a truce waits for. */
  #underWay = 0
  #truce = false

  constructor(world: World, seed: number, signal: AbortSignal) {
    this.#world = world
    this.#random = new SeededRandom(seed)
    this.#signal = signal
  }

  get struck(): number {
    return [...this.tallies.values()].reduce((sum, { struck }) => sum + struck, 0)
  }

  /** Resolves when the signal has aborted and every fault under way is healed. */
  async rage(): Promise<void> {
    const lanes = Array.from({ length: this.#world.lanes }, () => this.#lane())
    await Promise.all([...lanes, this.#jobsLane(), this.#truces(), this.#tend()])
  }

  async #lane(): Promise<void> {
    while (!this.#signal.aborted) {
      await this.#rest(PAUSE_MS.min, PAUSE_MS.max)
      if (this.#random.chance(CALM.chance)) await this.#rest(CALM.ms, CALM.ms)
      if (this.#truce) continue
      this.#underWay++
      await this.#strike(this.#choose(this.#world.faults))
      this.#underWay--
    }
  }

  async #jobsLane(): Promise<void> {
    const { jobFaults } = this.#world
    while (jobFaults.length > 0 && !this.#signal.aborted) {
      await this.#rest(PAUSE_MS.min, PAUSE_MS.max)
      await this.#strike(this.#choose(jobFaults))
    }
  }

  async #tend(): Promise<void> {
    while (!this.#signal.aborted) {
      await this.#rest(TEND_MS, TEND_MS)
      await this.#world.tend()
    }
  }

  async #truces(): Promise<void> {
    while (this.#world.watch !== undefined && !this.#signal.aborted) {
      await this.#rest(TRUCE.everyMs, TRUCE.everyMs)
      this.#truce = true
      while (this.#underWay > 0 && !this.#isOver()) await this.#rest(PAUSE_MS.min, PAUSE_MS.min)
      const over = new AbortController()
      const watching = this.#isOver() ? undefined : this.#world.watch(over.signal)
      await this.#rest(TRUCE.ms, TRUCE.ms)
      over.abort()
      await watching
      this.#truce = false
    }
  }

  async #strike(fault: Fault<World>): Promise<void> {
    const indexes = this.#targets(fault.target)
    const [index] = indexes
    if (index === undefined || this.#isOver()) return
    const names = indexes.map((index) => `${kindOf(fault.target)}${index}`)
    const { slowness } = this.#world
    for (const name of names) this.#busy.add(name)
    try {
      const seen = await fault.strike({
        ...{ world: this.#world, random: this.#random, index, indexes },
        rest: (minMs, maxMs) => this.#rest(slowness * minMs, slowness * maxMs),
      })
      this.#count(fault.kind, seen > 0)
    } catch (error) {
      this.failures.push(`${fault.kind}: ${String(error)}`)
    } finally {
      for (const name of names) this.#busy.delete(name)
    }
  }

  #isOver(): boolean {
    return this.#signal.aborted
  }

  #choose(faults: readonly Fault<World>[]): Fault<World> {
    let left = this.#random.between(
      0,
      faults.reduce((sum, { weight }) => sum + weight, 0),
    )
    return faults.find(({ weight }) => (left -= weight) <= 0) ?? unreachable()
  }

  /** Free ones; none when there are too few. */
  #targets(target: Target): readonly number[] {
    const free = Array.from({ length: this.#world.sizes[target] ?? 0 }, (_, index) => index).filter(
      (index) => !this.#busy.has(`${kindOf(target)}${index}`),
    )
    const wanted = target === 'masters' ? this.#random.integer(1, 3) : 1
    const chosen: number[] = []
    while (chosen.length < wanted && free.length > 0) {
      chosen.push(...free.splice(this.#random.integer(0, free.length - 1), 1))
    }
    return chosen
  }

  #count(kind: string, seen: boolean): void {
    const tally = this.tallies.get(kind) ?? { struck: 0, unseen: 0 }
    if (seen) tally.struck += 1
    else tally.unseen += 1
    this.tallies.set(kind, tally)
  }

  #rest(minMs: number, maxMs: number): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer)
        this.#signal.removeEventListener('abort', done)
        resolve()
      }
      const timer = setTimeout(done, this.#random.between(minMs, maxMs))
      if (this.#signal.aborted) done()
      else this.#signal.addEventListener('abort', done)
    })
  }
}

function kindOf(target: Target): string {
  return target === 'masters' ? 'master' : target
}

function unreachable(): never {
  throw new Error('There is no fault to choose')
}
