/** One worker process of the benchmark, on Node. */
import { Worker, type Job, type KeepJobs } from 'bullmq'
import { Cluster } from 'ioredis'
import * as built from '../built.ts'
import { BATCH_SIZE, type KeyedJob, type Orders, type Work } from './job.ts'
import { peerOf } from './peers.ts'
import { serveWorker } from './serve-worker.ts'

const MASTER_TIMEOUT_MS = 1_000
const CLUSTER = { redisOptions: { maxRetriesPerRequest: null } }

serveWorker({
  work(orders, run, completed) {
    const { contender } = orders
    const work = peerOf(contender)?.work ?? (contender === 'plain' ? workPlain : workLocked)
    return work(orders, run, completed)
  },
  add: async (orders, jobs) => peerOf(orders.contender)?.add(orders, jobs),
})

const workPlain: Work = async (orders, run, completed) => {
  const { queue, connection, concurrency, leaseMs, recoversSoon = false } = orders
  const worker = new Worker<KeyedJob>(queue, ({ data }) => run(data), {
    ...{ connection, concurrency, removeOnComplete: keeping(orders) },
    ...(recoversSoon && { lockDuration: leaseMs, stalledInterval: leaseMs / 2 }),
  })
  report(worker, orders, completed)
  await worker.waitUntilReady()
  return { stop: () => worker.close() }
}

const workLocked: Work = async (orders, run, completed) => {
  const { contender, queue, concurrency, masters, namespace, leaseMs, shards } = orders
  const cluster = shards === undefined ? undefined : new Cluster([orders.connection], CLUSTER)
  const redlock = new built.Redlock({
    ...{ masters, namespace, leaseMs, maxLeaseMs: leaseMs },
    ...(cluster === undefined && { masterTimeoutMs: MASTER_TIMEOUT_MS }),
    logger: built.silentLogger,
  })
  await redlock.ready()
  const one = (job: Job<KeyedJob>): Promise<void> => run(job.data)
  const several = built.batchProcessor<KeyedJob, void>({ size: BATCH_SIZE }, (jobs) =>
    Promise.allSettled(jobs.map((job) => one(job))),
  )
  const options = {
    ...{ connection: cluster ?? orders.connection, redlock, concurrency },
    resource: ({ data }: { readonly data: KeyedJob }) => data.key,
    removeOnComplete: keeping(orders),
    logger: built.silentLogger,
  }
  const worker =
    contender === 'sharded'
      ? new built.ShardedWorker<KeyedJob>(queue, one, { ...options, shards: shards ?? 1 })
      : new built.LockedWorker<KeyedJob>(queue, contender === 'batch' ? several : one, options)
  report(worker, orders, completed)
  await worker.waitUntilReady()
  return {
    async stop() {
      await worker.close()
      await redlock.close()
      cluster?.disconnect()
    },
  }
}

function report(
  worker: Pick<Worker<KeyedJob>, 'on'>,
  { quiet = false }: Orders,
  completed: () => void,
): void {
  const say = (error: Error): void => {
    if (!quiet) console.error(error)
  }
  worker.on('completed', completed)
  worker.on('failed', (_job, error) => {
    say(error)
  })
  worker.on('error', say)
}

function keeping({ removes = false }: Orders): KeepJobs {
  return { count: removes ? 0 : -1 }
}
