/** The rows, in the order of the table. */
import type { Row } from '../row.ts'
import { addBulk } from './adding.ts'
import { batches } from './batches.ts'
import { capabilities } from './capabilities.ts'
import { facade } from './facade.ts'
import { lightCustomers, lightLine } from './fairness.ts'
import { besideClosedLines, liveSlots, rate } from './limits.ts'
import { makespan } from './makespan.ts'
import { tenants, weights } from './shares.ts'
import { spread } from './spread.ts'
import { throughput } from './throughput.ts'

export const rows: readonly Row[] = [
  lightCustomers,
  lightLine,
  throughput('one-process', {
    ...{ lines: 500, each: 20, processes: 1, concurrency: 25 },
    ...{ throughput: [0.95, 1.05], groupmq: [1, 1.15] },
    ...{ clientCpu: [0.9, 0.65], queueCpu: [1.05, 0.9] },
  }),
  throughput('one-process-kept', {
    ...{ lines: 500, each: 20, processes: 1, concurrency: 25, kept: true },
    throughput: [0.9, 1],
  }),
  throughput('four-processes', {
    ...{ lines: 500, each: 20, processes: 4, concurrency: 25 },
    throughput: [0.9, 1],
  }),
  throughput('four-processes-kept', {
    ...{ lines: 500, each: 20, processes: 4, concurrency: 25, kept: true },
    throughput: [0.85, 0.95],
  }),
  throughput('few-lines', {
    ...{ lines: 20, each: 500, processes: 1, concurrency: 25 },
    throughput: [0.85, 0.95],
  }),
  throughput('one-at-a-time', {
    ...{ lines: 100, each: 20, processes: 1, concurrency: 1 },
    ...{ throughput: [0.7, 0.8], groupmq: [1.5] },
  }),
  throughput('jobs-of-5-ms', {
    ...{ lines: 8, each: 1_000, processes: 1, concurrency: 8, workMs: 5, spreadMs: 2 },
    ...{ throughput: [0.97, 0.99], clientCpu: [1.3, 1.15] },
  }),
  addBulk,
  facade,
  spread,
  makespan('one-line', 1, 60, 50, 1.03, ['gate', 'relaxed', 'groupmq']),
  makespan('twelve-lines', 12, 25, 20, 1.05, ['gate', 'groupmq']),
  capabilities,
  rate,
  liveSlots,
  besideClosedLines,
  weights,
  tenants,
  batches,
]
