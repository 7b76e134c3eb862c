/** The matrix as a document, and as data. */
import { markdownTable } from '../table.ts'
import type { Hazard } from './hazard.ts'
import type { Column } from './matrix.ts'

export interface Report {
  readonly date: string
  readonly node: string
  readonly seconds: number
  readonly command: string
  readonly columns: readonly Column[]
}

export function verdictTable(report: Report, hazards: readonly Hazard[]): string {
  const head = ['', ...report.columns.map(({ library }) => library.title)]
  const rows = hazards.map(({ name, title }) => [
    title,
    ...report.columns.map(({ cells }) => cells[name]?.verdict ?? ''),
  ])
  const passed = report.columns.map(
    ({ cells }) => Object.values(cells).filter(({ verdict }) => verdict === 'pass').length,
  )
  const count = ['**passed**', ...passed.map((n) => `**${n} of ${hazards.length}**`)]
  return markdownTable([head, ...rows, count])
}

export function evidenceList(report: Report, hazards: readonly Hazard[]): string {
  const blocks = hazards.map(({ name, title, scenario }) => {
    const lines = report.columns.flatMap(({ library, cells }) => {
      const cell = cells[name]
      return cell === undefined ? [] : [`- ${library.title}: ${cell.verdict}. ${cell.evidence}`]
    })
    return `### ${title}\n\n${capitalized(scenario)}.\n\n${lines.join('\n')}`
  })
  return blocks.join('\n\n')
}

export function document(report: Report, hazards: readonly Hazard[]): string {
  const versions = report.columns.map(({ versions: all }) => `- ${all.join(', ')}`).join('\n')
  const notes = report.columns.flatMap(({ library: { title, note } }) =>
    note === undefined ? [] : [`- ${title}: ${note}.`],
  )
  return `# Lock libraries against the same hazards

What published Redlock libraries for JavaScript do when something goes wrong, measured on five real Redis masters with
a fault proxy in front of each. \`n/a\` means that the library makes no such promise or never came to the point. Times are
of this run on this machine; verdicts are what to compare.

${verdictTable(report, hazards)}

Run on ${report.date} with \`${report.command}\`, Node ${report.node}, in ${report.seconds} s. The command fails when
bullmq-redlock fails a row, or when a fault did not take place.

## Versions and configuration

${versions}

Each library has one ioredis client for each master with ioredis' defaults, which is how all of them are documented. Where
a row fails and a connection setting helps, the row says so. In their favour:

${notes.join('\n')}

## What was measured

${evidenceList(report, hazards)}
`
}

function capitalized(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}
