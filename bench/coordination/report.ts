/** The figures as text: for a terminal, and as the table of docs/coordination.md. */
import { markdownTable, textTable } from '../table.ts'
import { verdictOf, type Figure, type Limit } from './row.ts'

export interface RowResult {
  readonly name: string
  readonly load: string
  readonly figures: readonly Figure[]
  /** Why the row could not be run to its end. */
  readonly failure?: string
}

export function isWrong({ figures, failure }: RowResult): boolean {
  if (failure !== undefined) return true
  return figures.some((figure) => figure.kind === 'correctness' && verdictOf(figure) === 'MISSED')
}

export function printRow({ name, load, figures, failure }: RowResult): void {
  console.log(`\n${name}: ${load}`)
  console.log(textTable(figures.map((figure) => [...cellsOf(figure), figure.note ?? ''])))
  if (failure !== undefined) console.log(`  MISSED: the row did not end. ${failure}`)
}

export function markdown(results: readonly RowResult[]): string {
  const lines = results.flatMap(({ name, load, figures, failure }) => [
    ...figures.map((figure, index) => {
      const [what = '', ...cells] = cellsOf(figure)
      const noted = figure.note === undefined ? what : `${what} (${figure.note})`
      return [index === 0 ? `**${name}**: ${load}` : '', noted, ...cells]
    }),
    ...(failure === undefined ? [] : [[`**${name}**`, '', '', '', '', `MISSED: ${failure}`]]),
  ])
  return markdownTable([['Load', 'Figure', 'Measured', 'Must', 'Aim', ''], ...lines])
}

function cellsOf(figure: Figure): readonly string[] {
  const { name, must, aim } = figure
  return [name, shown(figure), limit(must), limit(aim), verdictOf(figure)]
}

function shown({ value, unit = '' }: Figure): string {
  if (value === Infinity) return 'never'
  if (Number.isNaN(value)) return '?'
  const rounded = Number.isInteger(value) || Math.abs(value) >= 100 ? Math.round(value) : undefined
  const digits = rounded?.toLocaleString('en') ?? value.toFixed(unit === 'x' ? 3 : 2)
  return unit === '' ? digits : `${digits} ${unit === 'x' ? '×' : unit}`
}

function limit({ atMost, atLeast }: Limit = {}): string {
  if (atMost !== undefined) return `≤ ${atMost.toLocaleString('en')}`
  return atLeast === undefined ? '' : `≥ ${atLeast.toLocaleString('en')}`
}
