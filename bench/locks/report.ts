/** A run as text for the terminal and as Markdown for the documentation. */
import { number, shown } from './format.ts'
import { isMet, type Figure, type Measured, type Row, type Table } from './row.ts'

export interface Report {
  readonly command: string
  readonly date: string
  readonly machine: string
  readonly rounds: number
  readonly seconds: number
  /** `package@version` of everything, by contender. */
  readonly versions: Readonly<Record<string, readonly string[]>>
  readonly rows: readonly (Pick<Row, 'name' | 'load'> & Measured & { readonly seconds: number })[]
}

export function figureTable(figures: readonly Figure[]): Table {
  return {
    title: 'Held to',
    head: ['', 'target', 'measured', 'beside', ''],
    rows: figures.map((figure) => {
      const { name, unit, measured, beside = '', atMost, atLeast } = figure
      const suffix = unit === 'x' ? '×' : unit === '' ? '' : ` ${unit}`
      const target =
        atLeast !== undefined
          ? `≥ ${number(atLeast)}${suffix}`
          : atMost !== undefined
            ? `≤ ${number(atMost)}${suffix}`
            : ''
      const verdict = target === '' ? '' : isMet(figure) ? 'met' : 'missed'
      return [name, target, shown(measured), beside, verdict]
    }),
  }
}

export function markdown(report: Report, image: string | undefined): string {
  const { command, date, machine, rounds, seconds, versions, rows } = report
  const figures = rows.flatMap((row) => row.figures)
  const libraries = Object.values(versions).map((all) => `- ${all.join(', ')}`)
  const parts = [
    `Measured on ${date} with \`${command}\` in ${Math.round(seconds)} s: ${machine}. Median of ${rounds} rounds, and between brackets the lowest and the highest round.`,
    ...(figures.length > 0 ? [markdownTable(figureTable(figures))] : []),
    ...(image === undefined ? [] : [`![The main figures as bars](${image})`]),
    ...rows.flatMap(({ name, load, tables }) => [
      `### ${name}`,
      load,
      ...tables.flatMap((table) => [`**${table.title}**`, markdownTable(table)]),
    ]),
    '### Versions',
    libraries.join('\n'),
  ]
  return parts.join('\n\n')
}

export function text({ title, head, rows }: Table): string {
  const widths = widthsOf([head, ...rows])
  const lines = [head, ...rows].map((cells) =>
    cells
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  )
  return `${title}\n${lines.map((line) => `  ${line}`).join('\n')}`
}

/** Padded, as Prettier would do it. */
function markdownTable({ head, rows }: Table): string {
  const widths = widthsOf([head, ...rows]).map((width) => Math.max(3, width))
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(' | ')} |`
  const rule = widths.map((width) => '-'.repeat(width))
  return [line(head), line(rule), ...rows.map(line)].join('\n')
}

function widthsOf(rows: readonly (readonly string[])[]): readonly number[] {
  const columns = rows[0]?.length ?? 0
  return Array.from({ length: columns }, (_, column) =>
    Math.max(...rows.map((row) => row[column]?.length ?? 0)),
  )
}
