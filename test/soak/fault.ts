/** One way to hurt a running system, and to heal it again. */
import type { SeededRandom } from '../sim/seeded-random.ts'

/** What a fault is done to; nothing is hurt in two ways at once. */
export type Target = 'master' | 'masters' | 'cluster' | 'client' | 'worker' | 'queue' | 'jobs'

export interface Strike<World> {
  readonly world: World
  readonly random: SeededRandom
  /** Of the target; of the first one where there are several. */
  readonly index: number
  /** One for most, two or three masters for `masters`. */
  readonly indexes: readonly number[]
  /** Ends early when the soak is interrupted. */
  rest(minMs: number, maxMs: number): Promise<void>
}

export interface Fault<World> {
  readonly kind: string
  readonly target: Target
  /** How often it is chosen, compared with the others. */
  readonly weight: number
  /**
   * Hurts, waits, heals. Returns how often the fault was seen to strike, by a counter or by a fact
   * that changed; 0 when nothing was in its way.
   */
  strike(strike: Strike<World>): Promise<number>
}
