/** One worker process of a sharded queue. */
import { Cluster } from 'ioredis'
import { Redlock, ShardedQueue, ShardedWorker, silentLogger } from '../built.ts'
import type { KeyedJob, Orders } from '../coordination/job.ts'
import { serveWorker } from '../coordination/serve-worker.ts'

const ADD_AT_ONCE = 1_000

function connect({ connection }: Orders): Cluster {
  return new Cluster([connection], { redisOptions: { maxRetriesPerRequest: null } })
}

serveWorker(
  async (orders, run, completed) => {
    const { queue, concurrency, masters, namespace, leaseMs, shards = 1 } = orders
    const connection = connect(orders)
    const lease = { leaseMs, maxLeaseMs: leaseMs }
    const redlock = new Redlock({ masters, namespace, ...lease, logger: silentLogger })
    await redlock.ready()
    const options = {
      ...{ connection, redlock, removeOnComplete: { count: 0 }, logger: silentLogger },
      resource: ({ data }: { readonly data: KeyedJob }) => data.key,
    }
    const process = ({ data }: { readonly data: KeyedJob }): Promise<void> => run(data)
    const worker = new ShardedWorker<KeyedJob>(queue, process, { ...options, shards, concurrency })
    worker.on('completed', completed)
    worker.on('error', (error) => {
      console.error(error)
    })
    await worker.waitUntilReady()
    return {
      async stop() {
        await worker.close()
        await redlock.close()
        connection.disconnect()
        return 0
      },
    }
  },
  async (orders, jobs) => {
    const connection = connect(orders)
    const { queue: name, shards = 1 } = orders
    const resource = ({ key }: KeyedJob): string => key
    const queue = new ShardedQueue(name, { connection, shards, resource })
    for (let from = 0; from < jobs.length; from += ADD_AT_ONCE) {
      const some = jobs.slice(from, from + ADD_AT_ONCE)
      await queue.addBulk(some.map((data) => ({ name: 'job', data })))
    }
    await queue.close()
    connection.disconnect()
  },
)
