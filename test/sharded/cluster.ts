/** A Redis Cluster of four nodes, a fleet of masters, and sharded queues and workers on them. */
import type { Cluster } from 'ioredis'
import { afterAll, beforeAll } from 'vitest'
import {
  ShardedQueue,
  ShardedQueueEvents,
  ShardedWorker,
  silentLogger,
  type LeasedProcessor,
  type ShardedQueueOptions,
  type ShardedWorkerOptions,
} from '../../src/index.ts'
import type { TestServer } from '../../src/testing/index.ts'
import { useFleet, type Fixture } from '../fixtures.ts'
import { startCluster } from '../support/redis-cluster.ts'
import { resourceOf, type Charge } from './charge.ts'

export interface ClusterFixture extends Fixture {
  readonly nodes: readonly TestServer[]
  /** @param maxRedirections how often a command is tried where its slot moves. */
  connect(maxRedirections?: number): Cluster
  queue(options?: Partial<ShardedQueueOptions<Charge>>): ShardedQueue<Charge>
  worker(
    processor: LeasedProcessor<Charge, unknown>,
    options?: Partial<ShardedWorkerOptions<Charge>>,
  ): Promise<ShardedWorker<Charge>>
  events(): ShardedQueueEvents
}

export function useCluster(): ClusterFixture {
  const fixture = useFleet({ masters: 3, queue: false })
  let nodes: readonly TestServer[] = []
  beforeAll(async () => {
    nodes = await startCluster({ masters: 4 })
  })
  afterAll(async () => {
    await Promise.all(nodes.map((node) => node.close()))
  })
  const connect = (maxRedirections = 16): Cluster => fixture.cluster(nodes, { maxRedirections })
  const own: Omit<ClusterFixture, keyof Fixture> = {
    get nodes() {
      return nodes
    },
    connect,
    queue(options = {}) {
      const common = { connection: connect(), shards: 4, resource: resourceOf }
      const queue = new ShardedQueue<Charge>(fixture.namespace, { ...common, ...options })
      return fixture.closing(queue.on('error', () => undefined))
    },
    async worker(processor, options = {}) {
      const worker = new ShardedWorker<Charge>(fixture.namespace, processor, {
        ...{ connection: connect(), shards: 4, logger: silentLogger },
        redlock: options.redlock ?? (await fixture.redlock({ masterTimeoutMs: 1_500 })),
        resource: (job) => resourceOf(job.data),
        ...options,
      })
      worker.on('error', () => undefined)
      return fixture.closing(worker)
    },
    events() {
      const events = new ShardedQueueEvents(fixture.namespace, { connection: connect(), shards: 4 })
      return fixture.closing(events.on('error', () => undefined))
    },
  }
  return Object.defineProperties(fixture, Object.getOwnPropertyDescriptors(own)) as ClusterFixture
}
