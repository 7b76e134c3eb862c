/** pg-boss with its policy `key_strict_fifo`, on PostgreSQL. */
import { loadPeer } from '../../peers/load.ts'
import type { KeyedJob, Orders } from '../job.ts'
import type { PeerQueue } from '../peer-queue.ts'

interface Boss {
  on(event: 'error', listener: (error: Error) => void): unknown
  start(): Promise<unknown>
  stop(options: { graceful: boolean }): Promise<void>
  createQueue(
    name: string,
    options: {
      policy: 'key_strict_fifo'
      retryLimit: number
      retryDelay: number
      heartbeatSeconds: number
    },
  ): Promise<void>
  insert(name: string, jobs: { data: KeyedJob; singletonKey: string }[]): Promise<unknown>
  work(
    name: string,
    options: {
      batchSize: number
      localConcurrency: number
      pollingIntervalSeconds: number
      burstWhenReadyExceeds: number
      burstWhenBatchFull: boolean
    },
    handler: (jobs: readonly { data: KeyedJob }[]) => Promise<void>,
  ): Promise<string>
}

interface PgBossModule {
  readonly PgBoss: new (options: Record<string, unknown>) => Boss
}

const QUEUE = 'jobs'
/** The least that it takes. */
const POLL_SECONDS = 0.5
const HEARTBEAT_SECONDS = 10

/** The size with which it was fastest here: a batch that is full is fetched at once. */
function batchSizeFor({ keys = 1 }: Orders): number {
  if (keys >= 100) return 25
  return keys >= 10 ? 5 : 1
}

async function start(orders: Orders, more: Record<string, unknown>): Promise<Boss> {
  const { PgBoss } = await loadPeer<PgBossModule>('pg-boss')
  const { host, port } = orders.connection
  const boss = new PgBoss({
    ...{ host, port, user: 'postgres', database: 'postgres', schema: orders.queue },
    ...{ max: orders.concurrency, schedule: false, ...more },
  })
  boss.on('error', (error) => {
    if (orders.quiet !== true) console.error(error)
  })
  await boss.start()
  return boss
}

export const peer: PeerQueue = {
  async work(orders, run, completed) {
    // These find a backlog, and the jobs of a dead worker, as soon as may be configured.
    const boss = await start(orders, {
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
    await boss.work(QUEUE, options, async (jobs) => {
      await Promise.all(jobs.map(({ data }) => run(data).then(completed)))
    })
    return { stop: () => boss.stop({ graceful: true }).then(() => 0) }
  },
  async add(orders, jobs) {
    const boss = await start(orders, { supervise: false })
    await boss.createQueue(QUEUE, {
      ...{ policy: 'key_strict_fifo', retryLimit: 3, retryDelay: 0 },
      heartbeatSeconds: HEARTBEAT_SECONDS,
    })
    // Jobs of one call have one time of creation, and a random order: each key is in a call once.
    for (let from = 0; from < jobs.length;) {
      const keys = new Set<string>()
      let to = from
      for (; to < jobs.length && !keys.has(jobs[to]?.key ?? ''); to++) keys.add(jobs[to]?.key ?? '')
      await boss.insert(
        QUEUE,
        jobs.slice(from, to).map((data) => ({ data, singletonKey: data.key })),
      )
      from = to
    }
    await boss.stop({ graceful: true })
  },
}
