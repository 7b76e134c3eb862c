import type { HistoryVerdict } from '../../src/testing/index.ts'
import type { Tally } from './nemesis.ts'

export interface Report {
  readonly seed: number
  readonly minutes: number
  readonly seconds: number
  readonly interrupted: boolean
  readonly faults: Readonly<Record<string, Tally>>
  readonly struck: number
  readonly leases: number
  readonly extensions: number
  readonly endings: HistoryVerdict['endings']
  readonly refusals: Readonly<Record<string, number>>
  readonly writes: number
  readonly staleWrites: number
  readonly jobs: { readonly added: number; readonly open: number }
  /** How many members of a cluster have led. */
  readonly leaders?: number
  /** Of the queue whose jobs are removed; those that completed long ago among them. */
  readonly scratchJobs?: { readonly gone: number; readonly fetched: number }
  /** For how long lines were watched while only jobs were hurt. */
  readonly watchedSeconds?: number
  readonly longestStandstillMs?: number
  /** From telling a worker to end until its process had ended. */
  readonly longestExitMs: number
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
  const ends = Object.entries(endings).map(([end, count]) => `${count} ${end}`)
  console.table(faults)
  console.log(`${struck} faults in ${report.seconds} s (seed ${report.seed})`)
  console.log(`${report.leases} leases: ${ends.join(', ')}; ${report.extensions} extensions`)
  console.log(`attempts that were refused: ${JSON.stringify(report.refusals)}`)
  console.log(`${report.writes} writes, ${report.staleWrites} of them stale and refused`)
  console.log(`${jobs.added} jobs, ${jobs.open} not done`)
  if (report.leaders !== undefined) console.log(`${report.leaders} members have led`)
  if (scratchJobs !== undefined) {
    console.log(
      `of the jobs that may be removed ${scratchJobs.gone} are gone, ${scratchJobs.fetched} were fetched`,
    )
    console.log(
      `lines watched for ${report.watchedSeconds ?? 0} s: longest standstill ${report.longestStandstillMs ?? 0} ms`,
    )
  }
  console.log(`longest exit of a worker that was told to end: ${report.longestExitMs} ms`)
  if (blind.length > 0) console.log(`never seen to strike: ${blind.join(', ')}`)
  for (const anomaly of anomalies.slice(0, MAX_ANOMALIES)) console.log(`ANOMALY ${anomaly}`)
  const verdict = report.interrupted ? 'interrupted' : report.passed ? 'passed' : 'FAILED'
  console.log(`${anomalies.length} anomalies: ${verdict}`)
}
