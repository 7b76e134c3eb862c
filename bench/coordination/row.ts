/** One row of the table: a load, its figures, and the limits of each figure. */
import type { Harness } from './harness.ts'

export interface Limit {
  readonly atMost?: number
  readonly atLeast?: number
}

export interface Figure {
  readonly name: string
  /** Infinity means never. */
  readonly value: number
  readonly unit?: 'x' | 'ms' | 'µs' | 'B' | '%' | '' | undefined
  readonly must?: Limit
  readonly aim?: Limit
  /** A correctness figure that misses its limit fails the command; a speed figure is marked. */
  readonly kind: 'correctness' | 'speed' | 'reference'
  /** Details, for the reader. */
  readonly note?: string
}

export interface Extent {
  /** How often each contender runs. */
  readonly rounds: number
  /** Rounds before these, not counted. */
  readonly warmUps: number
  /** Runs every load once and small: it shows that the row works, not how fast. */
  readonly smoke: boolean
}

export interface Row {
  readonly name: string
  readonly load: string
  run(harness: Harness, extent: Extent): Promise<readonly Figure[]>
}

export type Verdict = '' | 'MISSED' | 'MET' | 'MET, aim too'

export function verdictOf({ value, must, aim }: Figure): Verdict {
  if (must === undefined) return ''
  if (!within(value, must)) return 'MISSED'
  return aim !== undefined && within(value, aim) ? 'MET, aim too' : 'MET'
}

function within(value: number, { atMost = Infinity, atLeast = -Infinity }: Limit): boolean {
  return value <= atMost && value >= atLeast
}

/** A figure that counts what must never happen. */
export function none(name: string, value: number): Figure {
  return { name, value, must: { atMost: 0 }, kind: 'correctness' }
}

export function reference(name: string, value: number, unit: Figure['unit'] = ''): Figure {
  return { name, value, unit, kind: 'reference' }
}

/** A speed that misses its limit is only marked. */
export function speed(
  name: string,
  value: number,
  unit: Figure['unit'],
  limits: Pick<Figure, 'must' | 'aim' | 'note'>,
): Figure {
  return { name, value, unit, ...limits, kind: 'speed' }
}
