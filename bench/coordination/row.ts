/** One row of the table: a load, its figures, and the limits of each figure. */
import type { Effort } from '../effort.ts'
import type { Figure as MeasuredFigure, Limit, MeasuredRow } from '../measured.ts'
import { isMet } from '../report.ts'
import { spread } from '../statistics.ts'
import type { Harness } from './harness.ts'

export type { Limit } from '../measured.ts'

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

export interface Row {
  readonly name: string
  readonly load: string
  run(harness: Harness, effort: Effort): Promise<readonly Figure[]>
}

export function measuredRow(row: Row): MeasuredRow<Harness> {
  const { name, load } = row
  return {
    ...{ name, load },
    async run(harness, effort) {
      const found = await row.run(harness, effort)
      const figures = found.map(measuredFigure)
      const wrong = found.flatMap(({ kind, name: what, value }, index) =>
        kind === 'speed' || isMet(figures[index]) ? [] : [`${name}: ${what}: ${value}`],
      )
      return { tables: [], figures, wrong }
    },
  }
}

function measuredFigure({ name, value, unit = '', must, aim, note }: Figure): MeasuredFigure {
  return {
    ...{ name, measured: spread([value]), ...must },
    unit: unit === 'x' || unit === '' ? unit : ` ${unit}`,
    ...(aim !== undefined && { aim }),
    ...(note !== undefined && { beside: note }),
  }
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
