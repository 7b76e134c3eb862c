/** A run as text for the terminal and as Markdown for the documentation. */
import { markdownTable, textTable } from './table.ts'
import { number, shown } from './format.ts'
import type { Figure, Measured } from './measured.ts'

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

function figureRows({ rows }: Report): readonly (readonly string[])[] {
  const figures = rows.flatMap((row) => row.figures)
  return figures.length === 0
    ? []
    : [['', 'target', 'measured', 'beside', ''], ...figures.map(figureRow)]
}

function figureRow(figure: Figure): readonly string[] {
  const { name, unit, measured, beside = '', atMost, atLeast } = figure
  const limit = atLeast ?? atMost
  if (limit === undefined) return [name, '', shown(measured), beside, '']
  const target = `${atLeast === undefined ? '≤' : '≥'} ${number(limit)}${unit === 'x' ? '×' : unit}`
  const isMet = measured.median <= (atMost ?? Infinity) && measured.median >= (atLeast ?? -Infinity)
  return [name, target, shown(measured), beside, isMet ? 'met' : 'missed']
}

export function text(report: Report): string {
  const { machine, rounds, versions, rows } = report
  const figures = figureRows(report)
  return [
    `${machine}; median of ${rounds} rounds (lowest–highest)`,
    Object.values(versions).flat().join(', '),
    ...rows.flatMap(({ name, load, tables, seconds }) => [
      `\n${name}, ${Math.round(seconds)} s: ${load}`,
      ...tables.map(({ title, head, rows: cells }) => `\n${title}\n${textTable([head, ...cells])}`),
    ]),
    ...(figures.length > 0 ? [`\nHeld to\n${textTable(figures)}`] : []),
  ].join('\n')
}

/** One row of a report, as a section of its own. */
export function markdown(report: Report, { name, ...row }: Report['rows'][number]): string {
  const { command, date, machine, rounds, versions } = report
  const figures = figureRows({ ...report, rows: [{ name, ...row }] })
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
