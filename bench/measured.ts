/** One kind of load: what it measures, in tables, and what it is held to. */
import type { Effort } from './effort.ts'
import type { Spread } from './statistics.ts'

export interface Limit {
  readonly atMost?: number
  readonly atLeast?: number
}

/** Something that must be shown, and whether it was; without a target only for comparison. */
export interface Figure extends Limit {
  readonly name: string
  /** Better than what must be. */
  readonly aim?: Limit
  readonly measured: Spread
  readonly unit: 'x' | ' KiB' | ' ms' | ' µs' | ' B' | ' %' | ''
  /** What it is compared with. */
  readonly beside?: string
}

export interface Table {
  readonly title: string
  readonly head: readonly string[]
  readonly rows: readonly (readonly string[])[]
}

export interface Measured {
  readonly tables: readonly Table[]
  readonly figures: readonly Figure[]
  /** What must not happen at any speed: a second holder, a lease of ours that was not granted. */
  readonly wrong: readonly string[]
}

/** `Harness` is where it runs. */
export interface MeasuredRow<Harness> {
  readonly name: string
  /** One sentence. */
  readonly load: string
  run(harness: Harness, effort: Effort): Promise<Measured>
}
