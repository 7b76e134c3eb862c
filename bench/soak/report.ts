import type { Tally } from './nemesis.ts'

export interface Report {
  readonly seed: number
  readonly minutes: number
  readonly seconds: number
  readonly interrupted: boolean
  readonly faults: Readonly<Record<string, Tally>>
  readonly struck: number
  readonly leases: number
  readonly endings: { readonly released: number; readonly lapsed: number; readonly lost: number }
  readonly refusals: Readonly<Record<string, number>>
  readonly writes: number
  readonly staleWrites: number
  readonly jobs: { readonly added: number; readonly open: number }
  /** Of the queue whose jobs are removed; those that completed long ago among them. */
  readonly scratchJobs: { readonly gone: number; readonly fetched: number }
  /** For how long lines were watched while only jobs were hurt. */
  readonly watchedSeconds: number
  readonly longestStandstillMs: number
  readonly anomalies: readonly string[]
  /** Kinds of faults that were tried and never seen to strike. */
  readonly blind: readonly string[]
  readonly passed: boolean
}

/** More would bury the first ones, which tell what happened. */
const MAX_ANOMALIES = 50

export function printReport(report: Report, asJson: boolean): void {
  if (asJson) {
    console.log(JSON.stringify(report))
    return
  }
  const { faults, struck, endings, jobs, scratchJobs, anomalies, blind } = report
  console.table(faults)
  console.log(`${struck} faults in ${report.seconds} s (seed ${report.seed})`)
  console.log(
    `${report.leases} leases: ${endings.released} released, ${endings.lapsed} lapsed, ${endings.lost} lost`,
  )
  console.log(`attempts that were refused: ${JSON.stringify(report.refusals)}`)
  console.log(`${report.writes} writes, ${report.staleWrites} of them stale and refused`)
  console.log(`${jobs.added} jobs, ${jobs.open} not done`)
  console.log(
    `of the jobs that may be removed ${scratchJobs.gone} are gone, ${scratchJobs.fetched} were fetched`,
  )
  console.log(
    `lines watched for ${report.watchedSeconds} s: longest standstill ${report.longestStandstillMs} ms`,
  )
  if (blind.length > 0) console.log(`never seen to strike: ${blind.join(', ')}`)
  for (const anomaly of anomalies.slice(0, MAX_ANOMALIES)) console.log(`ANOMALY ${anomaly}`)
  const verdict = report.interrupted ? 'interrupted' : report.passed ? 'passed' : 'FAILED'
  console.log(`${anomalies.length} anomalies: ${verdict}`)
}
