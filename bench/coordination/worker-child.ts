/** One worker process of the benchmark, on Node. */
import { Worker, type Job, type KeepJobs } from 'bullmq'
import { batchProcessor, LockedWorker, Redlock, ShardedWorker, silentLogger } from '../built.ts'
import type { LockedWorkerOptions } from '../../src/index.ts'
import { BATCH_SIZE, type KeyedJob, type Orders } from './job.ts'
import { isPeer, peerQueue } from './peer-queue.ts'
import { serveWorker, type Work } from './serve-worker.ts'

const MASTER_TIMEOUT_MS = 1_000

const work: Work = async (orders, run, completed) => {
  const { contender } = orders
  if (isPeer(contender)) return (await peerQueue(contender)).work(orders, run, completed)
  return contender === 'plain'
    ? plainWork(orders, run, completed)
    : lockedWork(orders, run, completed)
}

const plainWork: Work = async (orders, run, completed) => {
  const { queue, connection, concurrency, leaseMs, recoversSoon = false } = orders
  const worker = new Worker<KeyedJob>(queue, ({ data }) => run(data), {
    ...{ connection, concurrency, removeOnComplete: keeping(orders) },
    ...(recoversSoon && { lockDuration: leaseMs, stalledInterval: leaseMs / 2 }),
  })
  worker.on('completed', completed).on('failed', failed(orders))
  await worker.waitUntilReady()
  return { stop: () => worker.close().then(() => 0) }
}

function keeping({ removes = false }: Orders): KeepJobs {
  return { count: removes ? 0 : -1 }
}

function failed({ quiet }: Orders): (job: unknown, error: Error) => void {
  return (_job, error) => {
    if (quiet !== true) console.error(error)
  }
}

const lockedWork: Work = async (orders, run, completed) => {
  const { contender, queue, connection, concurrency } = orders
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
  const one = (job: Job<KeyedJob>): Promise<void> => run(job.data)
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
  worker.on('completed', completed).on('failed', failed(orders))
  worker.on('requeued', () => wasted++)
  worker.on('error', (error) => {
    if (orders.quiet !== true) console.error(error)
  })
  await worker.waitUntilReady()
  const stop = async (): Promise<number> => {
    await worker.close()
    await redlock.close()
    return wasted
  }
  return { stop }
}

serveWorker(work, async (orders, jobs) => {
  if (!isPeer(orders.contender)) throw new Error(`${orders.contender} adds jobs by itself`)
  await (await peerQueue(orders.contender)).add(orders, jobs)
})
