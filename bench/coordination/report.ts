/** The figures as text: for a terminal, and as the table of docs/coordination.md. */
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
  for (const figure of figures) {
    const cells = [
      figure.name.padEnd(56),
      shown(figure).padStart(12),
      `must ${limit(figure.must)}`.padEnd(13),
      `aim ${limit(figure.aim)}`.padEnd(12),
      verdictOf(figure),
    ]
    const limits = figure.must === undefined ? cells.slice(0, 2) : cells
    console.log(`  ${limits.join('  ').trimEnd()}`)
    if (figure.note !== undefined) console.log(`      ${figure.note}`)
  }
  if (failure !== undefined) console.log(`  MISSED: the row did not end. ${failure}`)
}

export function markdown(results: readonly RowResult[]): string {
  const head = [
    '| Load | Figure | Measured | Must | Aim | |',
    '| --- | --- | --- | --- | --- | --- |',
  ]
  const lines = results.flatMap(({ name, load, figures, failure }) => {
    const rows = figures.map((figure, index) => {
      const cells = [
        index === 0 ? `**${name}**: ${load}` : '',
        figure.note === undefined ? figure.name : `${figure.name} (${figure.note})`,
        shown(figure),
        figure.must === undefined ? '' : limit(figure.must),
        figure.aim === undefined ? '' : limit(figure.aim),
        verdictOf(figure),
      ]
      return `| ${cells.join(' | ')} |`
    })
    return failure === undefined ? rows : [...rows, `| **${name}** | | | | | MISSED: ${failure} |`]
  })
  return [...head, ...lines].join('\n')
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
  return atLeast === undefined ? '–' : `≥ ${atLeast.toLocaleString('en')}`
}
