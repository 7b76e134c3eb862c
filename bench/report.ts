/** What a row of a benchmark has measured, as a section of a page. */
import { spread, type Spread } from './rounds.ts'

interface Limits {
  readonly atMost?: number | undefined
  readonly atLeast?: number | undefined
  /** What it is compared with, and details. */
  readonly beside?: string
  /** The command fails where it misses its limit; other figures are only marked. */
  readonly isPromise?: true
}

/** Something that is measured; without a limit only for comparison. */
export interface Figure extends Limits {
  readonly name: string
  readonly measured: Spread
  readonly unit: string
}

export interface Table {
  readonly title: string
  readonly head: readonly string[]
  readonly rows: readonly (readonly string[])[]
}

export interface Measured {
  readonly figures: readonly Figure[]
  readonly tables?: readonly Table[]
}

/** @param measured Infinity means never. */
export function figure(
  name: string,
  measured: Spread | number,
  unit: 'x' | 'KiB' | 'ms' | '%' | '',
  limits: Limits = {},
): Figure {
  const rounds = typeof measured === 'number' ? spread([measured]) : measured
  return { name, measured: rounds, unit, ...limits }
}

/** Counts what must not happen at any speed. */
export function none(name: string, times: number): Figure {
  return figure(name, times, '', { atMost: 0, isPromise: true })
}

/** A row for each contender. */
export function tableOf<Contender>(
  title: string,
  contenders: readonly Contender[],
  columns: readonly (readonly [head: string, cell: (contender: Contender) => string])[],
): Table {
  return {
    title,
    head: columns.map(([head]) => head),
    rows: contenders.map((contender) => columns.map(([, cell]) => cell(contender))),
  }
}

/** Three digits that count. */
export function number(value: number): string {
  if (value === Infinity) return 'never'
  if (!Number.isFinite(value)) return '–'
  const magnitude = Math.abs(value)
  if (magnitude >= 1_000) return Math.round(value).toLocaleString('en')
  if (Number.isInteger(value)) return String(value)
  return value.toFixed(magnitude >= 100 ? 0 : magnitude >= 10 ? 1 : magnitude >= 0.1 ? 2 : 3)
}

/** The median, and between brackets the lowest and the highest round. */
export function shown({ median, low, high }: Spread): string {
  if (low === high) return number(median)
  return `${number(median)} (${number(low)}–${number(high)})`
}

function isWithin({ median }: Spread, { atLeast = -Infinity, atMost = Infinity }: Limits): boolean {
  return median >= atLeast && median <= atMost
}

/** A sentence for each promise that was broken. */
export function brokenPromises({ figures }: Measured): readonly string[] {
  return figures
    .filter((one) => one.isPromise && !isWithin(one.measured, one))
    .map(({ name, measured }) => `${name}: ${shown(measured)}`)
}

function cellsOf({ name, measured, unit, beside = '', ...limits }: Figure): readonly string[] {
  const { atLeast, atMost } = limits
  const behind = unit === '' || unit === 'x' ? '' : ` ${unit}`
  const value = `${shown(measured)}${behind}`
  const must = atLeast ?? atMost
  if (must === undefined) return [name, '', value, beside, '']
  const target = `${atMost === undefined ? '≥' : '≤'} ${number(must)}${unit === 'x' ? '×' : behind}`
  return [name, target, value, beside, isWithin(measured, limits) ? 'met' : 'missed']
}

/** In Markdown. */
export function markdownTable([head = [], ...rows]: readonly (readonly string[])[]): string {
  const lines = [head, head.map(() => '---'), ...rows]
  return lines.map((cells) => `| ${cells.join(' | ')} |`).join('\n')
}

export function section(
  { name, load }: { readonly name: string; readonly load: string },
  { figures, tables = [] }: Measured,
): string {
  const all = tables.flatMap(({ title, head, rows }) => [
    `**${title}**`,
    markdownTable([head, ...rows]),
  ])
  const head = ['', 'target', 'measured', 'beside', '']
  const figureTable = markdownTable([head, ...figures.map(cellsOf)])
  return [`### ${name}`, load, ...(figures.length > 0 ? [figureTable] : []), ...all].join('\n\n')
}
