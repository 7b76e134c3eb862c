/** A Redis Cluster without replicas, and slots that move between its nodes. */
import { Redis } from 'ioredis'
import { startServer, type TestServer } from '../../src/testing/index.ts'
import { takePort } from '../../src/testing/free-port.ts'
import { until } from '../fixtures.ts'

export const SLOTS = 16_384

export async function startCluster(count = 3): Promise<readonly TestServer[]> {
  const busPorts = new Map<number, number>()
  const nodes = await Promise.all(
    Array.from({ length: count }, async (_, index) => {
      const busPort = await takePort('127.0.0.1')
      const config = { 'cluster-enabled': 'yes', 'cluster-port': String(busPort) }
      const node = await startServer({ name: `node-${index + 1}`, config })
      busPorts.set(node.port, busPort)
      return node
    }),
  )
  const clients = nodes.map(({ url }) => new Redis(url))
  const share = (part: number): number => Math.floor((part * SLOTS) / nodes.length)
  for (const [index, redis] of clients.entries()) {
    await redis.call('CLUSTER', 'SET-CONFIG-EPOCH', index + 1)
    await redis.call('CLUSTER', 'ADDSLOTSRANGE', share(index), share(index + 1) - 1)
  }
  await until(
    'every node knows that the cluster is whole',
    async () => {
      // A meeting may come to nothing where both sides begin one.
      for (const { host, port } of nodes.slice(1)) {
        await clients[0]?.call('CLUSTER', 'MEET', host, port, busPorts.get(port) ?? 0)
      }
      await new Promise((resolve) => setTimeout(resolve, 200))
      const infos = await Promise.all(clients.map((redis) => redis.call('CLUSTER', 'INFO')))
      const whole = new RegExp(`cluster_state:ok[^]*cluster_known_nodes:${count}\\b`)
      return infos.every((info) => whole.test(String(info)))
    },
    50_000,
  )
  for (const redis of clients) redis.disconnect()
  return nodes
}

const MIGRATED_AT_ONCE = 100
const MIGRATE_MS = 5_000

/**
 * Moves a slot to the next node, as `redis-cli --cluster reshard` does.
 * @param first a key that moves before the others, and what is done then.
 */
export async function moveSlot(
  nodes: readonly TestServer[],
  slot: number,
  first?: { readonly key: string; readonly then: () => Promise<unknown> },
): Promise<void> {
  const clients = nodes.map(({ url }) => new Redis(url))
  try {
    const ids = await Promise.all(clients.map((redis) => redis.call('CLUSTER', 'MYID')))
    const shards = (await clients[0]?.call('CLUSTER', 'SLOTS')) as [
      number,
      number,
      [string, number, string],
    ][]
    const owned = shards.find(([first, last]) => first <= slot && slot <= last)
    const from = ids.indexOf(owned?.[2][2])
    const to = (from + 1) % nodes.length
    const [source, target, { host, port }] = [
      clients[from] as Redis,
      clients[to] as Redis,
      nodes[to] as TestServer,
    ]
    await target.call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', String(ids[from]))
    await source.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', String(ids[to]))
    const migrate = (keys: readonly string[]): Promise<unknown> =>
      source.call('MIGRATE', host, port, '', 0, MIGRATE_MS, 'KEYS', ...keys)
    if (first !== undefined) {
      await migrate([first.key])
      await first.then()
    }
    for (;;) {
      const keys = await source.call('CLUSTER', 'GETKEYSINSLOT', slot, MIGRATED_AT_ONCE)
      if ((keys as string[]).length === 0) break
      await migrate(keys as string[])
    }
    for (const redis of [target, source, ...clients]) {
      await redis.call('CLUSTER', 'SETSLOT', slot, 'NODE', String(ids[to]))
    }
  } finally {
    for (const redis of clients) redis.disconnect()
  }
}
