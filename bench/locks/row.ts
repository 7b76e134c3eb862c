/** One kind of load: what it measures, in tables, and what it is held to. */
import type { Contender } from './contender.ts'
import type { Lab } from './lab.ts'
import type { Spread } from './statistics.ts'

/** Something that must be shown, and whether it was; without a target only for comparison. */
export interface Figure {
  readonly name: string
  readonly atMost?: number
  readonly atLeast?: number
  readonly measured: Spread
  readonly unit: 'x' | 'KiB' | ''
  /** What it is compared with. */
  readonly beside?: string
}

export interface Table {
  readonly title: string
  readonly head: readonly string[]
  readonly rows: readonly (readonly string[])[]
}

/** Bars for the plot. */
export interface Panel {
  readonly title: string
  readonly better: 'more' | 'less'
  readonly bars: readonly Bar[]
}

export interface Bar {
  readonly label: string
  readonly kind: Contender['kind']
  readonly at: Spread
}

export interface Measured {
  readonly tables: readonly Table[]
  readonly figures: readonly Figure[]
  readonly panels: readonly Panel[]
  /** What must not happen at any speed: a second holder, a lease of ours that was not granted. */
  readonly wrong: readonly string[]
  /** Everything that was measured, for `--json`. */
  readonly samples: unknown
}

export interface Row {
  readonly name: string
  /** One sentence. */
  readonly load: string
  run(lab: Lab): Promise<Measured>
}

export function isMet({ measured, atMost = Infinity, atLeast = -Infinity }: Figure): boolean {
  return measured.median <= atMost && measured.median >= atLeast
}
