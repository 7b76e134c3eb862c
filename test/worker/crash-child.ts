/**
 * A worker process for the crash test: says over IPC when it takes jobs and when a job enters its
 * step, and stays there if told so.
 */
import { LockedWorker, Redlock } from '../../src/index.ts'

interface Setup {
  readonly queue: string
  readonly connection: { readonly host: string; readonly port: number }
  readonly masters: readonly string[]
  readonly namespace: string
  readonly leaseMs: number
  /** Never leave the step. */
  readonly hang: boolean
}

const setup = JSON.parse(process.argv[2] ?? '') as Setup
const redlock = new Redlock({
  masters: setup.masters,
  namespace: setup.namespace,
  leaseMs: setup.leaseMs,
  maxLeaseMs: 10_000,
})
const worker = new LockedWorker<{ customer: number }, string>(
  setup.queue,
  (job, lease) =>
    lease.step('charge', async () => {
      process.send?.({ entered: job.id, fencingToken: lease.fencingToken })
      if (setup.hang) await new Promise((resolve) => setTimeout(resolve, 600_000))
      return 'charged'
    }),
  {
    connection: setup.connection,
    redlock,
    resource: (job) => `customer:${job.data.customer}`,
    concurrency: 2,
  },
)
worker.on('error', (error) => {
  console.error(error)
})
await worker.waitUntilReady()
process.send?.('ready')
process.once('SIGTERM', () => {
  void worker
    .close()
    .then(() => redlock.close())
    .then(() => {
      process.disconnect()
    })
})
