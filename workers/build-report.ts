/** Answers one request for an operator's report: from the store while it is fresh, else by building it. */
import type { JobLease } from '../src/index.ts'
import { operatorReport, type OperatorReport } from './operator-report.ts'
import type { ReportStore } from './report-store.ts'
import type { Strike } from './strike.ts'

export interface ReportRequest {
  readonly operator: string
  /** Which request for this operator; the answer is the same for all. */
  readonly number: number
}

export interface ReportAnswer {
  readonly from: 'built' | 'store'
  readonly report: OperatorReport
}

/** Requests of one operator hold the same lease one after the other, so only the first builds. */
export async function buildReport(
  { operator }: ReportRequest,
  lease: Pick<JobLease, 'step'>,
  { strikes, reports, freshMs }: ReportDesk,
): Promise<ReportAnswer> {
  const stored = await lease.step('open', ({ fencingToken }) =>
    reports.open(operator, fencingToken),
  )
  if (stored !== undefined && stored.ageMs <= freshMs) {
    return { from: 'store', report: stored.report }
  }
  const report = await lease.step('build', () => operatorReport(operator, strikes))
  await lease.step('save', ({ fencingToken }) => reports.save(report, fencingToken))
  return { from: 'built', report }
}

/** What requests are answered from. */
export interface ReportDesk {
  readonly strikes: readonly Strike[]
  readonly reports: ReportStore
  /** A report younger than this is as good as a new one. */
  readonly freshMs: number
  close(): Promise<void>
}
