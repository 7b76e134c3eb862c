/** One line of the table: a load, what was measured of it, and what it is held to. */
import type { Lab } from './lab.ts'

export interface Figure {
  readonly name: string
  readonly value: number
  readonly unit?: 'x' | 'ms' | 'B' | ''
  /** Held to this at most; a correctness figure fails the run, a speed figure is only marked. */
  readonly atMost?: number
  readonly atLeast?: number
  readonly kind: 'correctness' | 'speed' | 'reference'
}

export interface Row {
  readonly name: string
  readonly load: string
  run(lab: Lab, rounds: number): Promise<readonly Figure[]>
}

export function meets({ value, atMost = Infinity, atLeast = -Infinity }: Figure): boolean {
  return value <= atMost && value >= atLeast
}
