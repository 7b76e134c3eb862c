/** A Redis Cluster without replicas, and how a slot moves between two of its nodes. */
import { Redis } from 'ioredis'
import { startServer, type TestServer } from '../../src/testing/index.ts'
import { takePort } from '../../src/testing/free-port.ts'
import { until } from '../fixtures.ts'

export const SLOTS = 16_384

/** As a node names it: of its master, the last part is its id. */
type Range = [first: number, last: number, master: [host: string, port: number, id: string]]

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

/**
 * Moves the slot of a key from its node to another one, the key itself first.
 * @param meanwhile what happens when that key has moved, and no other.
 */
export async function moveSlot(
  nodes: readonly TestServer[],
  key: string,
  meanwhile: () => Promise<void> = () => Promise.resolve(),
): Promise<void> {
  const clients = nodes.map(({ url }) => new Redis(url))
  try {
    const ids = await Promise.all(clients.map((redis) => redis.call('CLUSTER', 'MYID')))
    const slot = await clients[0]?.call('CLUSTER', 'KEYSLOT', key)
    const ranges = (await clients[0]?.call('CLUSTER', 'SLOTS')) as Range[]
    const owner = ranges.find(([first, last]) => first <= Number(slot) && Number(slot) <= last)
    const from = ids.indexOf(owner?.[2][2])
    const to = (from + 1) % nodes.length
    const [source, target] = [clients[from] as Redis, clients[to] as Redis]
    const { host = '', port = 0 } = nodes[to] ?? {}
    const move = (keys: readonly string[]): Promise<unknown> =>
      source.call('MIGRATE', host, port, '', 0, 5_000, 'KEYS', ...keys)
    await target.call('CLUSTER', 'SETSLOT', String(slot), 'IMPORTING', String(ids[from]))
    await source.call('CLUSTER', 'SETSLOT', String(slot), 'MIGRATING', String(ids[to]))
    await move([key])
    await meanwhile()
    for (;;) {
      const keys = (await source.call('CLUSTER', 'GETKEYSINSLOT', String(slot), 10)) as string[]
      if (keys.length === 0) break
      await move(keys)
    }
    for (const redis of [target, source, ...clients]) {
      await redis.call('CLUSTER', 'SETSLOT', String(slot), 'NODE', String(ids[to]))
    }
  } finally {
    for (const redis of clients) redis.disconnect()
  }
}
