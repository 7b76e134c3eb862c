/**
 * A worker process for the tests of limits: says over IPC when a job starts and ends, and what
 * ended it.
 */
import type { Job } from 'bullmq'
import {
  batchProcessor,
  LockedWorker,
  Redlock,
  silentLogger,
  type JobLease,
} from '../../src/index.ts'

export interface ChildSetup {
  readonly queue: string
  readonly connection: { readonly host: string; readonly port: number }
  readonly masters: readonly string[]
  readonly namespace: string
  readonly maxLeaseMs: number
  readonly workMs: number
  readonly concurrency: number
  /** Jobs of a batch; without it, jobs run one by one. */
  readonly batch?: number
  /** How far the clock of the process is ahead. */
  readonly aheadMs: number
}

export interface ChildReport {
  readonly what: 'started' | 'ended' | 'requeued'
  readonly customer: string
  readonly nr: number
  /** On the clock that all processes of the machine share. */
  readonly at: number
  /** The reason of the job's signal, in words. */
  readonly stopped?: string
}

const setup = JSON.parse(process.argv[2] ?? '') as ChildSetup
const { queue, connection, masters, namespace, maxLeaseMs, workMs, aheadMs, concurrency, batch } =
  setup
const clock = Date.now.bind(Date)
Date.now = () => clock() + aheadMs
const redlock = new Redlock({
  ...{ masters, namespace, leaseMs: 2_000, maxLeaseMs, logger: silentLogger },
})
const report = (what: ChildReport['what'], data: object, more = {}): void => {
  process.send?.({ what, ...data, at: clock(), ...more })
}
interface Call {
  readonly customer: string
  readonly nr: number
}

async function run({ data }: Job<Call>, lease: JobLease): Promise<void> {
  report('started', data)
  await new Promise<void>((resolve, reject) => {
    const timer = setTimeout(resolve, workMs)
    lease.signal.addEventListener('abort', () => {
      clearTimeout(timer)
      report('ended', data, { stopped: String(lease.signal.reason) })
      reject(new Error('stopped'))
    })
  })
  report('ended', data)
}

const worker = new LockedWorker<Call>(
  queue,
  batch === undefined
    ? run
    : batchProcessor<Call, void>({ size: batch }, (jobs, lease) =>
        Promise.allSettled(jobs.map((job) => run(job, lease))),
      ),
  {
    ...{ connection, redlock, concurrency, logger: silentLogger },
    resource: ({ data }) => data.customer,
  },
)
worker.on('requeued', ({ data }) => {
  report('requeued', data)
})
worker.on('error', () => undefined)
process.once('SIGTERM', () => {
  void worker
    .close(true)
    .then(() => redlock.close())
    .then(() => {
      process.disconnect()
    })
})
