/** One worker process of a sharded queue, or of as many queues apart. */
import { Cluster } from 'ioredis'
import { LockedWorker, Redlock, ShardedQueue, ShardedWorker, silentLogger } from '../built.ts'
import type { KeyedJob, Orders } from '../coordination/job.ts'
import { serveWorker } from '../coordination/serve-worker.ts'

const ADD_AT_ONCE = 1_000

function open({ queue, shards = 1 }: Orders, connection: Cluster) {
  return new ShardedQueue(queue, { connection, shards, resource: ({ key }: KeyedJob) => key })
}

function connect({ connection }: Orders): Cluster {
  return new Cluster([connection], { redisOptions: { maxRetriesPerRequest: null } })
}

serveWorker(
  async (orders, run, completed) => {
    const { queue, concurrency, masters, namespace, leaseMs, shards = 1, apart = false } = orders
    const connection = connect(orders)
    const lease = { leaseMs, maxLeaseMs: leaseMs }
    const redlock = new Redlock({ masters, namespace, ...lease, logger: silentLogger })
    await redlock.ready()
    const options = {
      ...{ connection, redlock, removeOnComplete: { count: 0 }, logger: silentLogger },
      resource: ({ data }: { readonly data: KeyedJob }) => data.key,
    }
    const process = ({ data }: { readonly data: KeyedJob }): Promise<void> => run(data)
    const names = open(orders, connection)
    const workers = apart
      ? names.shards.map(({ opts: { prefix = '' } }) => {
          const own = { ...options, prefix, concurrency: concurrency / shards }
          return new LockedWorker<KeyedJob>(queue, process, own)
        })
      : [new ShardedWorker<KeyedJob>(queue, process, { ...options, shards, concurrency })]
    for (const worker of workers) {
      worker.on('completed', completed)
      worker.on('error', (error) => {
        console.error(error)
      })
      await worker.waitUntilReady()
    }
    return {
      async stop() {
        await Promise.all([names, ...workers].map((each) => each.close()))
        await redlock.close()
        connection.disconnect()
        return 0
      },
    }
  },
  async (orders, jobs) => {
    const connection = connect(orders)
    const queue = open(orders, connection)
    const queues = orders.apart === true ? queue.shards : [queue]
    for (let from = 0; from < jobs.length; from += ADD_AT_ONCE) {
      const some = jobs.slice(from, from + ADD_AT_ONCE)
      const keyNr = ({ key }: KeyedJob): number => Number(/\d+$/.exec(key)?.[0])
      for (const [nr, each] of queues.entries()) {
        const own = some.filter((data) => keyNr(data) % queues.length === nr)
        await each.addBulk(own.map((data) => ({ name: 'job', data })))
      }
    }
    await queue.close()
    connection.disconnect()
  },
)
