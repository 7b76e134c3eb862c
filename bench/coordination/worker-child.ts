/** One worker process of the benchmark: works as it is told, and reports every run. */
import { once } from 'node:events'
import { Worker, type Job, type KeepJobs } from 'bullmq'
import { batchProcessor, LockedWorker, Redlock, ShardedWorker, silentLogger } from '../built.ts'
import type { JobLease, LockedWorkerOptions } from '../../src/index.ts'
import { monotonicMs } from '../../test/faults/monotonic.ts'
import { openGroupWorker } from './groupmq.ts'
import {
  BATCH_SIZE,
  type Command,
  type KeyedJob,
  type Orders,
  type Report,
  type Run,
  type Tally,
} from './job.ts'

const REPORT_AFTER_MS = 5
const MASTER_TIMEOUT_MS = 1_000

interface Working {
  /** Ends it and returns how many starts were in vain. */
  stop(drains: boolean): Promise<number>
}

let runs: Run[] = []
let done = 0
let reporting: NodeJS.Timeout | undefined
let working: Working | undefined
let cpu = process.cpuUsage()
const failed = new Set<string>()
/** Aborted by `release`; a held job that starts after that does not wait. */
let hold = new AbortController()

function send(report: Report): void {
  // The benchmark may let this process go while a report is on its way.
  if (process.connected) process.send?.(report, () => undefined)
}

async function run(
  { key, nr, workMs, held, fails }: KeyedJob,
  announce: boolean,
  signal?: AbortSignal,
): Promise<void> {
  const startedAt = monotonicMs()
  if (announce) send({ report: 'entered', key, nr, at: startedAt })
  if (workMs > 0) await new Promise((resolve) => setTimeout(resolve, workMs))
  if (held === true && !hold.signal.aborted) await once(hold.signal, 'abort', { signal })
  if (fails === true && !failed.has(`${key} ${nr}`)) {
    failed.add(`${key} ${nr}`)
    throw new Error('It fails the first time')
  }
  const endedAt = monotonicMs()
  runs.push({ key, nr, startedAt, endedAt })
  if (announce) send({ report: 'left', key, nr, at: endedAt })
}

async function work(orders: Orders): Promise<Working> {
  const { contender, queue, connection, concurrency, announce = false } = orders
  const removeOnComplete = keeping(orders)
  const completed = (): void => {
    done++
    // A process that has nothing to do is asleep, as it would be without the benchmark.
    reporting ??= setTimeout(() => {
      reporting = undefined
      send({ report: 'done', count: done })
    }, REPORT_AFTER_MS)
  }
  const failed = (_job: unknown, error: Error): void => {
    if (orders.quiet !== true) console.error(error)
  }
  if (contender === 'groupmq') {
    return openGroupWorker(orders, (job) => run(job, announce), completed)
  }
  if (contender === 'plain') {
    const worker = new Worker<KeyedJob>(queue, ({ data }) => run(data, announce), {
      ...{ connection, concurrency, removeOnComplete },
    })
    worker.on('completed', completed).on('failed', failed)
    await worker.waitUntilReady()
    return { stop: () => worker.close().then(() => 0) }
  }
  return lockedWork(orders, completed, failed)
}

function keeping({ removes = false }: Orders): KeepJobs {
  return { count: removes ? 0 : -1 }
}

async function lockedWork(
  orders: Orders,
  completed: () => void,
  failed: (job: unknown, error: Error) => void,
): Promise<Working> {
  const { contender, queue, connection, concurrency, announce = false } = orders
  const { masters, namespace, leaseMs } = orders
  const redlock = new Redlock({
    masters,
    namespace,
    leaseMs,
    maxLeaseMs: leaseMs,
    masterTimeoutMs: MASTER_TIMEOUT_MS,
    logger: silentLogger,
  })
  await redlock.ready()
  const one = (job: Job<KeyedJob>, lease?: JobLease): Promise<void> =>
    run(job.data, announce, lease?.signal)
  const several = batchProcessor<KeyedJob, void>({ size: BATCH_SIZE }, (jobs) =>
    Promise.allSettled(jobs.map((job) => one(job))),
  )
  const options: LockedWorkerOptions<KeyedJob> = {
    connection,
    redlock,
    resource: (job) => job.data.key,
    concurrency,
    removeOnComplete: keeping(orders),
    logger: silentLogger,
    order: contender === 'relaxed' ? 'relaxed' : 'strict',
  }
  const worker =
    contender === 'sharded'
      ? new ShardedWorker<KeyedJob>(queue, one, { ...options, shards: 1 })
      : new LockedWorker<KeyedJob>(queue, contender === 'batch' ? several : one, options)
  let wasted = 0
  worker.on('completed', completed).on('failed', failed)
  worker.on('requeued', () => wasted++)
  worker.on('error', (error) => {
    if (orders.quiet !== true) console.error(error)
  })
  await worker.waitUntilReady()
  const stop = async (drains: boolean): Promise<number> => {
    await (drains ? worker.drain({ timeoutMs: 0 }) : worker.close())
    await redlock.close()
    return wasted
  }
  return { stop }
}

async function obey(message: Command): Promise<void> {
  if (message.command === 'release') {
    hold.abort()
    return
  }
  if (message.command === 'work') {
    runs = []
    done = 0
    hold = new AbortController()
    working = await work(message.orders)
    cpu = process.cpuUsage()
    send({ report: 'working' })
    return
  }
  const { user, system } = process.cpuUsage(cpu)
  const wasted = (await working?.stop(message.drains)) ?? 0
  working = undefined
  const tally: Tally = {
    runs,
    runsByProcess: [runs.length],
    wasted,
    cpuMs: (user + system) / 1_000,
  }
  send({ report: 'stopped', tally })
}

process.on('SIGINT', () => undefined) // Ctrl-C is for the benchmark, which then ends its workers.
process.on('disconnect', () => process.exit())
process.on('message', (message: Command) => {
  void obey(message)
})
send({ report: 'ready' })
