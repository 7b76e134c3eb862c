/** Libraries beside ours, as their documentation shows them, with what serves them best here. */
import { loadPeer, type Emitter, type Method, type PeerIoredis } from '../peers/load.ts'
import { inChunks, type Contender, type KeyedJob, type Orders, type PeerQueue } from './job.ts'

// groupmq, the nearest published library: groups in order, in one Redis, without locks.

interface GroupMq {
  readonly Queue: new (options: object) => Record<'close' | 'remove', Method> & {
    readonly add: Method<{ readonly id: string }>
  }
  readonly Worker: new (options: object) => Record<'close' | 'run', Method> & Emitter
}

async function openGroups({ connection, queue, leaseMs }: Orders) {
  const { Queue, Worker } = await loadPeer<GroupMq>('groupmq')
  const { Redis } = await loadPeer<PeerIoredis>('ioredis')
  const redis = new Redis({ ...connection, maxRetriesPerRequest: null })
  redis.on('error', () => undefined)
  // Its time limit for a job is how long a dead worker holds its group: a lease's length here.
  const groups = new Queue({ redis, namespace: queue, jobTimeoutMs: leaseMs, maxAttempts: 3 })
  return { redis, groups, Worker }
}

const groupmq: PeerQueue = {
  async work(orders, run, completed) {
    const { redis, groups, Worker } = await openGroups(orders)
    const worker = new Worker({
      queue: groups,
      concurrency: orders.concurrency,
      stalledInterval: Math.max(500, orders.leaseMs / 2),
      // As many as a LockedWorker allows. With groupmq's default of 1, a dead worker's job fails.
      maxStalledCount: 3,
      handler: ({ data }: { readonly data: KeyedJob }) => run(data),
    })
    worker.on('completed', completed)
    void worker.run()
    return {
      async stop() {
        await worker.close()
        redis.disconnect()
      },
    }
  },
  async add(orders, jobs) {
    const producer = await openGroupProducer(orders)
    await producer.add(jobs)
    await producer.close()
  },
}

/** Adds jobs to the groups of a queue, and drops those that wait. */
export async function openGroupProducer(orders: Orders) {
  const { redis, groups } = await openGroups(orders)
  return {
    /** @returns their ids. */
    async add(jobs: readonly KeyedJob[], maxAttempts = 3): Promise<readonly string[]> {
      const now = Date.now()
      const adding = jobs.map((data) => {
        const { key: groupId, delayMs: delay, priority = 0 } = data
        return groups.add({ groupId, data, delay, orderMs: now + priority, maxAttempts })
      })
      return (await Promise.all(adding)).map(({ id }) => id)
    },
    remove: (jobId: string) => groups.remove(jobId),
    async close() {
      await groups.close().catch(() => undefined) // It may close before it was ready.
      redis.disconnect()
    },
  }
}

// bunqueue with a group for each key, on its own broker; its client runs on Bun alone.

interface Bunqueue {
  readonly Queue: new (
    name: string,
    options: object,
  ) => Record<'addBulk' | 'close' | 'setStallConfigAsync', Method>
  readonly Worker: new (
    name: string,
    run: (job: { readonly data: KeyedJob }) => Promise<void>,
    options: object,
  ) => Record<'close' | 'waitUntilReady', Method> & Emitter
}

export const bunqueue: PeerQueue = {
  async work({ queue, connection, concurrency, leaseMs, quiet = false }, run, completed) {
    const { Worker } = await loadPeer<Bunqueue>('bunqueue/client')
    const worker = new Worker(queue, ({ data }) => run(data), {
      ...{ connection, concurrency, group: { concurrency: 1 } },
      ...{ lockDuration: leaseMs, heartbeatInterval: leaseMs / 4 },
    })
    worker.on('completed', completed)
    worker.on('error', (error: Error) => {
      if (!quiet) console.error(error)
    })
    await worker.waitUntilReady()
    return { stop: () => worker.close() }
  },
  async add({ connection, queue: name, leaseMs }, jobs) {
    const { Queue } = await loadPeer<Bunqueue>('bunqueue/client')
    const queue = new Queue(name, { connection })
    await queue.setStallConfigAsync({ stallInterval: leaseMs, maxStalls: 3, gracePeriod: 0 })
    const opts = { attempts: 3, removeOnComplete: true }
    await inChunks(jobs, (some) =>
      queue.addBulk(
        some.map((data) => ({ name: 'job', data, opts: { ...opts, group: { id: data.key } } })),
      ),
    )
    await queue.close()
  },
}

// graphile-worker with a named queue for each key, on PostgreSQL.

interface GraphileWorker {
  readonly Logger: new (factory: () => () => void) => unknown
  readonly makeWorkerUtils: Method<Record<'addJobs' | 'migrate' | 'release', Method>>
  readonly run: Method<{ readonly events: Emitter; readonly stop: Method }>
}

/** A worker that found nothing looks again; its default is 2 s. */
const GRAPHILE_POLL_MS = 100
const MINUTE_MS = 60_000

async function openGraphile({ connection: { host, port }, queue }: Orders) {
  const graphile = await loadPeer<GraphileWorker>('graphile-worker')
  const shared = {
    connectionString: `postgres://postgres@${host}:${port}/postgres`,
    schema: queue,
    logger: new graphile.Logger(() => () => undefined),
  }
  return { graphile, shared }
}

const graphileWorker: PeerQueue = {
  async work(orders, run, completed) {
    const { graphile, shared } = await openGraphile(orders)
    const settings = { concurrency: orders.concurrency, maxPoolSize: orders.concurrency + 2 }
    const runner = await graphile.run({
      ...{ ...shared, ...settings, pollInterval: GRAPHILE_POLL_MS, noHandleSignals: true },
      taskList: { job: run },
    })
    runner.events.on('job:complete', ({ error }: { readonly error?: unknown }) => {
      if (error === null || error === undefined) completed()
    })
    return runner
  },
  async add(orders, jobs) {
    const { graphile, shared } = await openGraphile(orders)
    const utils = await graphile.makeWorkerUtils(shared)
    await utils.migrate()
    // Jobs of one time have no order: each has a time of its own, and all of them have come.
    const first = Date.now() - MINUTE_MS - jobs.length
    await utils.addJobs(
      jobs.map((payload, index) => {
        const runAt = new Date(first + index)
        return { identifier: 'job', payload, queueName: payload.key, runAt }
      }),
    )
    await utils.release()
  },
}

// pg-boss with its policy `key_strict_fifo`, on PostgreSQL.

type Boss = Record<'createQueue' | 'insert' | 'start' | 'stop' | 'work', Method> & Emitter

const BOSS_QUEUE = 'jobs'
/** The least that it takes. */
const POLL_SECONDS = 0.5
const HEARTBEAT_SECONDS = 10

/** The size with which it was fastest here: a batch that is full is fetched at once. */
function batchSizeFor({ keys = 1 }: Orders): number {
  if (keys >= 100) return 25
  return keys >= 10 ? 5 : 1
}

async function startBoss(orders: Orders, more: object): Promise<Boss> {
  const { PgBoss } = await loadPeer<{ readonly PgBoss: new (options: object) => Boss }>('pg-boss')
  const boss = new PgBoss({
    ...{ ...orders.connection, user: 'postgres', database: 'postgres', schema: orders.queue },
    ...{ max: orders.concurrency, schedule: false, ...more },
  })
  boss.on('error', (error: Error) => {
    if (orders.quiet !== true) console.error(error)
  })
  await boss.start()
  return boss
}

const pgBoss: PeerQueue = {
  async work(orders, run, completed) {
    // These find a backlog, and the jobs of a dead worker, as soon as may be configured.
    const boss = await startBoss(orders, {
      superviseIntervalSeconds: 1,
      monitorIntervalSeconds: 1,
      queueCacheIntervalSeconds: 1,
    })
    const batchSize = batchSizeFor(orders)
    const options = {
      ...{ batchSize, localConcurrency: orders.concurrency / batchSize },
      ...{ pollingIntervalSeconds: POLL_SECONDS, burstWhenReadyExceeds: 1 },
      burstWhenBatchFull: batchSize > 1,
    }
    await boss.work(BOSS_QUEUE, options, async (jobs: readonly { data: KeyedJob }[]) => {
      await Promise.all(jobs.map(({ data }) => run(data).then(completed)))
    })
    return { stop: () => boss.stop({ graceful: true }) }
  },
  async add(orders, jobs) {
    const boss = await startBoss(orders, { supervise: false })
    await boss.createQueue(BOSS_QUEUE, {
      ...{ policy: 'key_strict_fifo', retryLimit: 3, retryDelay: 0 },
      heartbeatSeconds: HEARTBEAT_SECONDS,
    })
    // Jobs of one call have one time of creation, and a random order: each key is in a call once.
    for (let from = 0; from < jobs.length;) {
      const call = new Map<string, object>()
      for (const data of jobs.slice(from)) {
        if (call.has(data.key)) break
        call.set(data.key, { data, singletonKey: data.key })
      }
      await boss.insert(BOSS_QUEUE, [...call.values()])
      from += call.size
    }
    await boss.stop({ graceful: true })
  },
}

const PEERS: Partial<Record<Contender, PeerQueue>> = {
  ...{ groupmq, bunqueue, 'pg-boss': pgBoss, 'graphile-worker': graphileWorker },
}

/** Undefined for a contender that is no other library. */
export function peerOf(contender: Contender): PeerQueue | undefined {
  return PEERS[contender]
}
