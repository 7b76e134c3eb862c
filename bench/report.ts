/** A run as text for the terminal and as Markdown for the documentation. */
import { markdownTable, textTable } from './table.ts'
import { number, shown } from './format.ts'
import type { Figure, Limit, Measured } from './measured.ts'

export interface Report {
  readonly command: string
  readonly date: string
  readonly machine: string
  readonly rounds: number
  readonly seconds: number
  /** `package@version` of everything, by contender. */
  readonly versions: Readonly<Record<string, readonly string[]>>
  readonly rows: readonly (Measured & {
    readonly name: string
    readonly load: string
    readonly seconds: number
  })[]
}

function figureRows({ figures }: Measured): readonly (readonly string[])[] {
  return figures.length === 0
    ? []
    : [['', 'target', 'measured', 'beside', ''], ...figures.map(figureRow)]
}

function figureRow(figure: Figure): readonly string[] {
  const { name, unit, measured, beside = '', atMost, atLeast, aim } = figure
  const value = unit === 'x' ? shown(measured) : `${shown(measured)}${unit}`
  const limit = atLeast ?? atMost
  if (limit === undefined) return [name, '', value, beside, '']
  const target = `${atLeast === undefined ? '≤' : '≥'} ${number(limit)}${unit === 'x' ? '×' : unit}`
  const met = aim !== undefined && isMet({ measured, ...aim }) ? 'met, aim too' : 'met'
  return [name, target, value, beside, isMet(figure) ? met : 'missed']
}

/** Whether it is within its limits, if it has any. */
export function isMet(figure: (Limit & Pick<Figure, 'measured'>) | undefined): boolean {
  const { atMost = Infinity, atLeast = -Infinity, measured } = figure ?? {}
  return measured === undefined || (measured.median <= atMost && measured.median >= atLeast)
}

export function text(report: Report): string {
  const { machine, rounds, versions, rows } = report
  return [
    `${machine}; median of ${rounds} rounds (lowest–highest)`,
    Object.values(versions).flat().join(', '),
    ...rows.flatMap((row) => [
      `\n${row.name}, ${Math.round(row.seconds)} s: ${row.load}`,
      ...row.tables.map(
        ({ title, head, rows: cells }) => `\n${title}\n${textTable([head, ...cells])}`,
      ),
      ...(row.figures.length > 0 ? [`\n${textTable(figureRows(row))}`] : []),
    ]),
  ].join('\n')
}

/** One row of a report, as a section of its own. */
export function markdown(report: Report, { name, ...row }: Report['rows'][number]): string {
  const { command, date, machine, rounds, versions } = report
  const figures = figureRows(row)
  const used = new Set(Object.values(versions).flat())
  return [
    `### ${name}`,
    row.load,
    ...(figures.length > 0 ? [markdownTable(figures)] : []),
    ...row.tables.flatMap(({ title, head, rows: cells }) => [
      `**${title}**`,
      markdownTable([head, ...cells]),
    ]),
    `${date}, \`${command}\`, ${Math.round(row.seconds)} s: ${machine}; median of ${rounds} rounds (lowest–highest). ${[...used].join(', ')}.`,
  ].join('\n\n')
}
