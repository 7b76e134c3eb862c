/** A process with a worker of a sharded queue: says over IPC which jobs start and complete. */
import { Cluster } from 'ioredis'
import { Redlock, ShardedWorker, silentLogger } from '../../src/index.ts'
import { resourceOf, type Charge } from './charge.ts'

export interface Setup {
  readonly queue: string
  readonly nodes: readonly { readonly host: string; readonly port: number }[]
  readonly masters: readonly string[]
  readonly namespace: string
  readonly leaseMs: number
  readonly maxLeaseMs: number
  readonly workMs: number
}

const setup = JSON.parse(process.argv[2] ?? '') as Setup
const { masters, namespace, leaseMs, maxLeaseMs } = setup
const redlock = new Redlock({ masters, namespace, leaseMs, maxLeaseMs })
const worker = new ShardedWorker<Charge>(
  setup.queue,
  async ({ data }) => {
    process.send?.({ started: data })
    await new Promise((resolve) => setTimeout(resolve, setup.workMs))
  },
  {
    connection: new Cluster([...setup.nodes], { redisOptions: { maxRetriesPerRequest: null } }),
    shards: 4,
    redlock,
    resource: (job) => resourceOf(job.data),
    concurrency: 4,
    logger: silentLogger,
  },
)
worker.on('error', () => undefined)
worker.on('completed', ({ data }) => process.send?.({ completed: data }))
