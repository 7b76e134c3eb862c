/** How much is measured: everything, or each load once and for a moment, to see that it works. */
export interface Effort {
  readonly rounds: number
  /** Rounds before these, not counted. */
  readonly warmUps: number
  readonly smoke: boolean
  /** The time for one measurement of a load. */
  forMs(fullMs: number, smokeMs?: number): number
  /** A size of a load. */
  upTo(full: number, smoke: number): number
  /** The variants of a load. */
  some<Variant>(all: readonly Variant[]): readonly Variant[]
}

const SMOKE_MS = 60
const SMOKE_VARIANTS = 2

export function effortOf(rounds: number, smoke: boolean): Effort {
  return {
    ...{ rounds, warmUps: smoke ? 0 : 1 },
    smoke,
    forMs: (fullMs, smokeMs = SMOKE_MS) => (smoke ? smokeMs : fullMs),
    upTo: (full, small) => (smoke ? small : full),
    some: (all) => (smoke ? all.slice(0, SMOKE_VARIANTS) : all),
  }
}
