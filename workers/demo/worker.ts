/**
 * A worker process of the demo: posts strikes as workers/customer-ledger.ts does, and reports what
 * happens.
 */
import { join } from 'node:path'
import { Worker, type Job } from 'bullmq'
import { destination, pino } from 'pino'
import { TICK_MS } from '../../scripts/lock-servers/zookeeper-server.ts'
import { LockedWorker, Redlock, silentLogger } from '../../src/index.ts'
import { openLocks } from '../../src/tools/operator/open-locks.ts'
import { Ledger } from '../ledger.ts'
import { postStrike, type PostingLease, type PostingResult } from '../post-strike.ts'
import type { Strike } from '../strike.ts'
import { DemoLedger } from './demo-ledger.ts'
import type { Report, WorkerConfig } from './messages.ts'

const STATUS_EVERY_MS = 150

const config = JSON.parse(process.argv[2] ?? '') as WorkerConfig
const tell = (report: Report, sent: () => void = () => undefined): void => {
  process.send?.(report, sent)
}

const { masters, locks, leaseMs, maxLeaseMs, concurrency } = config
// Written at once, so that a worker that is killed leaves its lines behind.
const leaseLog = destination({ dest: join(config.leaseLogs, `${config.name}.ndjson`), sync: true })
const lockOptions = {
  ...{ leaseMs, maxLeaseMs, owner: config.name },
  logger: pino({ level: 'debug' }, leaseLog),
}
const redlock =
  locks === undefined
    ? new Redlock({ masters, ...lockOptions })
    : await openLocks(locks, { ...lockOptions, tickMs: TICK_MS })
const ledger = await Ledger.connect(config.databaseUrl)
const demoLedger = new DemoLedger(ledger, config, tell)
const worker = config.without === 'lease' ? unlockedWorker() : lockedWorker()
report(worker)
const status = setInterval(() => {
  tell({ type: 'status', leases: redlock.status().leases })
}, STATUS_EVERY_MS)

// The only order there is.
process.on('message', () => {
  demoLedger.holdNext()
})
// A Ctrl-C in the terminal reaches this process too; its parent decides when it ends.
process.on('SIGINT', () => undefined)
process.on('SIGTERM', () => {
  void stop()
})
process.on('disconnect', () => process.exit(0))
if (!process.connected) process.exit(0)
await worker.waitUntilReady()
tell({ type: 'ready' })

function lockedWorker(): Worker<Strike, PostingResult> {
  const locked = new LockedWorker<Strike, PostingResult>(config.queue, process_, {
    connection: { url: config.queueUrl },
    redlock,
    logger: silentLogger,
    leaseMs,
    concurrency,
    resource: ({ data }) => `customer:${data.customer}`,
  })
  locked.on('requeued', (job) => {
    tell({ type: 'requeued', jobId: job.id ?? '' })
  })
  locked.on('leaseLost', (job) => {
    tell({ type: 'leaseLost', jobId: job.id ?? '' })
  })
  return locked
}

/** The same worker with nothing around its jobs. A crash is noticed as soon as with a lease. */
function unlockedWorker(): Worker<Strike, PostingResult> {
  const free: PostingLease = {
    fencingToken: 0,
    step: async (_name, run) => run({ signal: new AbortController().signal, fencingToken: 0 }),
  }
  return new Worker<Strike, PostingResult>(config.queue, (job) => process_(job, free), {
    connection: { url: config.queueUrl },
    concurrency,
    lockDuration: leaseMs,
    stalledInterval: Math.max(500, leaseMs / 2),
    maxStalledCount: 3,
  })
}

function process_(job: Job<Strike, PostingResult>, lease: PostingLease): Promise<PostingResult> {
  return postStrike(job, lease, demoLedger, config.name)
}

function report(running: Worker<Strike, PostingResult>): void {
  running.on('completed', (job) => {
    tell({ type: 'finished', jobId: job.id ?? '' })
  })
  running.on('failed', (job, { message }) => {
    tell({ type: 'failed', jobId: job?.id ?? '', message })
  })
  running.on('error', ({ message }) => {
    tell({ type: 'error', message })
  })
}

async function stop(): Promise<void> {
  clearInterval(status)
  await worker.close()
  await redlock.close()
  await ledger.close()
  process.disconnect()
}
