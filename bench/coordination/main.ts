/** The command line of the coordination benchmark; `--help` lists its options. */
import { runBenchmark } from '../bench.ts'
import { openHarness } from './harness.ts'
import { capabilities } from './rows/capabilities.ts'
import { lightCustomers, lightLine } from './rows/fairness.ts'
import { besideClosedLines, liveSlots, rate, tenants, weights } from './rows/limits.ts'
import { addBulk, batches, facade, makespan, spread, throughput } from './rows/overhead.ts'

const MANY = { lines: 500, each: 20, concurrency: 25 }

await runBenchmark({
  name: 'bench:coordination',
  title: 'How jobs that share a resource are coordinated: fairness, order, crashes, overhead.',
  rounds: 5,
  rows: [
    lightCustomers,
    lightLine,
    throughput('one-process', {
      ...{ ...MANY, processes: 1, throughput: 0.95, groupmq: 1, clientCpu: 0.9, queueCpu: 1.05 },
    }),
    throughput('one-process-kept', { ...MANY, processes: 1, kept: true, throughput: 0.9 }),
    throughput('four-processes', { ...MANY, processes: 4, throughput: 0.9 }),
    throughput('four-processes-kept', { ...MANY, processes: 4, kept: true, throughput: 0.85 }),
    throughput('few-lines', {
      ...{ lines: 20, each: 500, processes: 1, concurrency: 25, throughput: 0.85 },
    }),
    throughput('one-at-a-time', {
      ...{ lines: 100, each: 20, processes: 1, concurrency: 1, throughput: 0.7, groupmq: 1.5 },
    }),
    throughput('jobs-of-5-ms', {
      ...{ lines: 8, each: 1_000, processes: 1, concurrency: 8, workMs: 5, spreadMs: 2 },
      ...{ throughput: 0.97, clientCpu: 1.3 },
    }),
    addBulk,
    facade,
    spread,
    makespan(1, 60, 50, 1.03),
    makespan(12, 25, 20, 1.05),
    capabilities,
    rate,
    liveSlots,
    besideClosedLines,
    weights,
    tenants,
    batches,
  ],
  open: () => openHarness(4),
  packages: ['bullmq-redlock', 'bullmq', 'groupmq'],
})
