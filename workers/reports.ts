/**
 * Deduplicate expensive jobs: many ask for an operator's report, and one of them builds it. A
 * module for `bullmq-redlock work`.
 */
import { LockedWorker, type WorkerContext } from '../src/index.ts'
import { operatorReport, type OperatorReport } from './operator-report.ts'
import { readStrikes, REAL_STRIKES } from './strikes-file.ts'

const FRESH_MS = 60_000

interface ReportRequest {
  /** The operator whose strikes the report counts. */
  readonly customer: string
}

const strikes = await readStrikes(REAL_STRIKES)

export default ({
  redlock,
  connection,
  prefix,
}: WorkerContext): LockedWorker<ReportRequest, OperatorReport> =>
  new LockedWorker<ReportRequest, OperatorReport>(
    'reports',
    (job, lease) =>
      lease.step('build', async () => {
        await job.log('built')
        return operatorReport(job.data.customer, strikes)
      }),
    {
      ...{ redlock, connection, prefix },
      resource: ({ data }) => `report:${data.customer}`,
      dedupe: { resultTtlMs: FRESH_MS },
      concurrency: 4,
    },
  )
