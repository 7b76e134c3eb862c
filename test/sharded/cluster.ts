/**
 * Sharded queues and workers with a fleet of masters: on its queue's server, or on a Redis Cluster
 * of four nodes.
 */
import type { Cluster } from 'ioredis'
import { afterAll, beforeAll } from 'vitest'
import {
  ShardedQueue,
  ShardedQueueEvents,
  ShardedWorker,
  silentLogger,
  type LeasedProcessor,
  type ShardedQueueEventsOptions,
  type ShardedQueueOptions,
  type ShardedWorkerOptions,
} from '../../src/index.ts'
import type { TestServer } from '../../src/testing/index.ts'
import { useFleet, type Fixture } from '../fixtures.ts'
import { tell } from '../support/ask.ts'
import { startCluster } from '../support/redis-cluster.ts'
import { resourceOf, type Charge } from './charge.ts'

/** What it makes has four shards, and is closed after the test. */
export interface ShardsFixture extends Fixture {
  queue(options?: Partial<ShardedQueueOptions<Charge>>): ShardedQueue<Charge>
  worker(
    processor: LeasedProcessor<Charge, unknown>,
    options?: Partial<ShardedWorkerOptions<Charge>>,
  ): Promise<ShardedWorker<Charge>>
  events(options?: Partial<ShardedQueueEventsOptions>): ShardedQueueEvents
}

export interface ClusterFixture extends ShardsFixture {
  readonly nodes: readonly TestServer[]
  /** Where a shard is. */
  nodeOf(shard: number): TestServer
  /** Of its node. @returns how it ends; after the test at the latest. */
  inTrouble(trouble: Trouble, shard: number): Promise<() => Promise<void>>
  /** @param maxRedirections how often a command is tried where its slot moves. */
  connect(maxRedirections?: number): Cluster
}

export function useShards(): ShardsFixture {
  const fixture = useFleet({ masters: 1 })
  return withShards(fixture, {}, () => fixture.connection)
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
  const nodeOf = (shard: number): TestServer => nodes[shard] as TestServer
  const own = {
    get nodes() {
      return nodes
    },
    nodeOf,
    async inTrouble({ begin, end }: Trouble, shard: number) {
      const node = nodeOf(shard)
      let isOver = false
      const goOn = async (): Promise<void> => {
        if (!isOver) await end(node)
        isOver = true
      }
      fixture.defer(goOn)
      await begin(node)
      return goOn
    },
    connect,
  }
  return withShards(fixture, own, connect)
}

interface Heard {
  on(event: 'error', listener: () => void): unknown
  close(): unknown
}

function withShards<Own extends object>(
  fixture: Fixture,
  more: Own,
  connect: () => ShardedQueueOptions['connection'],
): ShardsFixture & Own {
  const common = () => ({ connection: connect(), shards: 4 })
  const heard = <Made extends Heard>(made: Made): Made => {
    made.on('error', () => undefined)
    return fixture.closing(made)
  }
  const own: Omit<ShardsFixture, keyof Fixture> = {
    queue: (options) =>
      heard(
        new ShardedQueue<Charge>(fixture.namespace, {
          ...{ ...common(), resource: resourceOf, ...options },
        }),
      ),
    worker: async (processor, options) =>
      heard(
        new ShardedWorker<Charge>(fixture.namespace, processor, {
          ...{ ...common(), logger: silentLogger, resource: (job) => resourceOf(job.data) },
          redlock: options?.redlock ?? (await fixture.redlock()),
          ...options,
        }),
      ),
    events: (options) =>
      heard(new ShardedQueueEvents(fixture.namespace, { ...common(), ...options })),
  }
  const all = {
    ...Object.getOwnPropertyDescriptors(own),
    ...Object.getOwnPropertyDescriptors(more),
  }
  return Object.defineProperties(fixture, all) as ShardsFixture & Own
}

/** What happens to a server, and how it ends. */
export interface Trouble {
  readonly begin: (node: TestServer) => Promise<unknown>
  readonly end: (node: TestServer) => Promise<unknown>
}

export const HANGS: Trouble = { begin: (node) => node.freeze(), end: (node) => node.thaw() }
/** It answers what it reads. */
export const REFUSES = configured('min-replicas-to-write', '1', '0')
export const IS_FULL = configured('maxmemory', '1', '0')

/** Of a server that has another value of a setting for a while. */
function configured(name: string, begun: string, ended: string): Trouble {
  const sets = (value: string) => (node: TestServer) => tell(node, 'CONFIG', 'SET', name, value)
  return { begin: sets(begun), end: sets(ended) }
}
