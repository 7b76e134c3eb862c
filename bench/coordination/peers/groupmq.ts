/** groupmq, the nearest published library: groups in order, in one Redis, without locks. */
import { loadPeer, type PeerRedis } from '../../peers/load.ts'
import type { KeyedJob, Orders } from '../job.ts'
import type { PeerQueue } from '../peer-queue.ts'

interface GroupJobOptions {
  readonly orderMs: number
  readonly maxAttempts: number
  readonly delay?: number | undefined
}

interface GroupQueue {
  add(job: GroupJobOptions & { groupId: string; data: KeyedJob }): Promise<{ readonly id: string }>
  remove(jobId: string): Promise<boolean>
  close(): Promise<void>
}

interface GroupMq {
  readonly Queue: new (options: {
    redis: PeerRedis
    namespace: string
    jobTimeoutMs: number
    maxAttempts: number
  }) => GroupQueue
  readonly Worker: new (options: {
    queue: GroupQueue
    concurrency: number
    stalledInterval: number
    maxStalledCount: number
    handler: (job: { data: KeyedJob }) => Promise<void>
  }) => {
    run(): Promise<void>
    close(): Promise<void>
    on(event: 'completed', listener: () => void): unknown
  }
}

interface PeerIoredis {
  readonly Redis: new (options: {
    host: string
    port: number
    maxRetriesPerRequest: null
  }) => PeerRedis
}

type Place = Pick<Orders, 'connection' | 'queue' | 'leaseMs'>

async function open({ connection, queue, leaseMs }: Place): Promise<{
  readonly redis: PeerRedis
  readonly groups: GroupQueue
  readonly Worker: GroupMq['Worker']
}> {
  const { Queue, Worker } = await loadPeer<GroupMq>('groupmq')
  const { Redis } = await loadPeer<PeerIoredis>('ioredis')
  const redis = new Redis({ ...connection, maxRetriesPerRequest: null })
  redis.on('error', () => undefined)
  // Its time limit for a job is how long a dead worker holds its group: a lease's length here.
  const groups = new Queue({ redis, namespace: queue, jobTimeoutMs: leaseMs, maxAttempts: 3 })
  return { redis, groups, Worker }
}

export const peer: PeerQueue = {
  async work(orders, run, completed) {
    const { redis, groups, Worker } = await open(orders)
    const worker = new Worker({
      queue: groups,
      concurrency: orders.concurrency,
      stalledInterval: Math.max(500, orders.leaseMs / 2),
      // As many as a LockedWorker allows. With groupmq's default of 1, a dead worker's job fails.
      maxStalledCount: 3,
      handler: ({ data }) => run(data),
    })
    worker.on('completed', completed)
    void worker.run()
    return {
      async stop() {
        await worker.close()
        redis.disconnect()
        return 0
      },
    }
  },
  async add(orders, jobs) {
    const producer = await openGroupProducer(orders)
    await producer.add(jobs)
    await producer.close()
  },
}

/** Adds jobs to the groups of a queue. */
export interface GroupProducer {
  add(jobs: readonly KeyedJob[]): Promise<void>
  /** One after the other. @returns their ids. */
  addEach(
    jobs: readonly KeyedJob[],
    options: (index: number) => GroupJobOptions,
  ): Promise<readonly string[]>
  /** Drops a job that waits. */
  remove(jobId: string): Promise<boolean>
  close(): Promise<void>
}

export async function openGroupProducer(place: Place): Promise<GroupProducer> {
  const { redis, groups } = await open(place)
  return {
    async add(jobs) {
      const orderMs = Date.now()
      const adding = jobs.map((data) =>
        groups.add({ groupId: data.key, data, orderMs, maxAttempts: 3 }),
      )
      await Promise.all(adding)
    },
    async addEach(jobs, options) {
      const ids: string[] = []
      for (const [index, data] of jobs.entries()) {
        ids.push((await groups.add({ groupId: data.key, data, ...options(index) })).id)
      }
      return ids
    },
    remove: (jobId) => groups.remove(jobId),
    async close() {
      await groups.close().catch(() => undefined) // It may close before it was ready.
      redis.disconnect()
    },
  }
}
