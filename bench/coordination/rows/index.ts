/** The rows, in the order of the table. */
import type { Row } from '../row.ts'
import { addBulk } from './adding.ts'
import { backlog } from './backlog.ts'
import { batches } from './batches.ts'
import { capabilities } from './capabilities.ts'
import { deadPlaces } from './dead-places.ts'
import { emptyJobs } from './empty-jobs.ts'
import { lightCustomers, lightLine } from './fairness.ts'
import { killedProducers } from './killed-producers.ts'
import { besideClosedLines, liveSlots, rate } from './limits.ts'
import { makespan } from './makespan.ts'
import { tenantCost, tenants, weights } from './shares.ts'
import { spread } from './spread.ts'
import { killedWorkers, outage, rollingRestart } from './upheaval.ts'

export const rows: readonly Row[] = [
  lightCustomers,
  lightLine,
  deadPlaces,
  killedProducers,
  emptyJobs('empty-jobs', 4, { must: { atLeast: 0.62 }, aim: { atLeast: 0.8 } }),
  emptyJobs('empty-jobs-one-process', 1, { must: { atLeast: 0.52 }, aim: { atLeast: 0.7 } }),
  addBulk,
  spread,
  makespan('one-line', 1, 60, 50, ['gate', 'relaxed', 'groupmq']),
  makespan('twelve-lines', 12, 25, 20, ['gate', 'groupmq']),
  backlog,
  killedWorkers,
  rollingRestart,
  outage,
  capabilities,
  rate,
  liveSlots,
  besideClosedLines,
  weights,
  tenants,
  tenantCost,
  batches,
]
