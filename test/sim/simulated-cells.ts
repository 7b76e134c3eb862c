/**
 * Cells in the place of a `Redlock`: the first half of the masters is the cell `a`, the other half
 * the cell `c`. Clients are of neighbouring steps of the change from `a` to `c`.
 */
import type { RedlockCells } from '../../src/redlock/cells/redlock-cells.ts'
import type { RedlockStatus } from '../../src/redlock/redlock.ts'
import type { RedlockOptions } from '../../src/redlock/settings.ts'
import type { RedlockClass } from './simulated-client.ts'

export type CellsClass = typeof RedlockCells

const STEPS = [
  { activeCells: ['a'] },
  { activeCells: ['c'], previousCells: ['a'] },
  { activeCells: ['c'] },
] as const
/** By client: the second one is of the step at which resources move. */
const MIXES = [
  [0, 1, 0],
  [0, 1, 1],
  [2, 1, 2],
  [0, 1, 0],
  [1, 1, 2],
] as const

export function cellsAsRedlock(Cells: CellsClass, seed: number): RedlockClass {
  const mix = MIXES[seed % MIXES.length] ?? MIXES[0]
  class CellsAsRedlock extends Cells {
    constructor({ masters, ...options }: RedlockOptions) {
      const client = Number(/-(\d+)$/.exec(options.owner ?? '')?.[1] ?? 1)
      const step = STEPS[mix[(client - 1) % mix.length] ?? 1]
      const half = masters.length / 2
      const cells = { a: masters.slice(0, half), c: masters.slice(half) }
      super({ ...options, cells, ...step })
    }

    override status(): never {
      const all: readonly RedlockStatus[] = [...super.status().values()]
      const leases = all.reduce((sum, { leases: each }) => sum + each, 0)
      return { ...all[0], leases } as never
    }
  }
  return CellsAsRedlock as unknown as RedlockClass
}
