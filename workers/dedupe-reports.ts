/**
 * Deduplicate expensive jobs: a report per operator that many ask for and one builds. The lease makes the others
 * wait, on whatever machine they run; after that a fresh report is in the store.
 */
import { buildReport } from './build-report.ts'
import type { ReportAnswer, ReportDesk, ReportRequest } from './build-report.ts'
import { wholeNumber } from './flags.ts'
import { ReportStore } from './report-store.ts'
import { runExample } from './runner.ts'
import { readStrikes } from './strikes-file.ts'

await runExample<ReportRequest, ReportAnswer, ReportDesk>({
  queue: 'dedupe-reports',
  options: { requests: { type: 'string' }, 'fresh-ms': { type: 'string' } },
  help: `
Builds a report for each operator that is asked for, once, however many ask.

  tsx workers/dedupe-reports.ts --enqueue --until-drained --master URL …

  --requests N        how often --enqueue asks for each operator's report. Default 3
  --fresh-ms N        how old a report may be to be given out again. Default 60000
`,
  async connect(databaseUrl, { input, own }) {
    const strikes = await readStrikes(input)
    const freshMs = wholeNumber(own['fresh-ms'], { flag: '--fresh-ms', fallback: 60_000, min: 0 })
    const reports = await ReportStore.connect(databaseUrl)
    return { strikes, reports, freshMs, close: () => reports.close() }
  },
  jobs(strikes, { own }) {
    const requests = wholeNumber(own['requests'], { flag: '--requests', fallback: 3, min: 1 })
    const operators = [...new Set(strikes.map(({ customer }) => customer))]
    return operators.flatMap((operator) =>
      Array.from({ length: requests }, (_, index) => ({
        name: 'report',
        data: { operator, number: index + 1 },
      })),
    )
  },
  resource: ({ operator }) => `report:${operator}`,
  process: ({ data }, lease, desk) => buildReport(data, lease, desk),
  describe: ({ data }, { from, report }) =>
    from === 'store'
      ? `${data.operator}, request ${data.number}: from the store`
      : `${data.operator}, request ${data.number}: built; ${report.strikes} strikes, ${report.total} ` +
        `dollars, worst ${report.worst.amount} (${report.worst.date}, ${report.worst.species})`,
  async conclude({ reports }, say) {
    const builds = await reports.builds()
    const built = [...builds.values()].reduce((total, count) => total + count, 0)
    say('reports', `${builds.size} operators, ${built} reports built`, {
      operators: builds.size,
      built,
    })
    return true
  },
})
