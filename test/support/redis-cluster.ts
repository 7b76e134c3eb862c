/** A Redis Cluster, and how a slot moves between two of them. */
import { Redis } from 'ioredis'
import { startServer, type ServerConfig, type TestServer } from '../../src/testing/index.ts'
import { takePort } from '../../src/testing/free-port.ts'
import { until } from '../fixtures.ts'
import { hasCopied } from './has-copied.ts'

export const SLOTS = 16_384

/**
 * Masters without replicas, or with one more node: the replica of the first one.
 * @param config of each node.
 */
export async function startCluster({
  masters = 3,
  replica = false,
  config = {},
}: {
  readonly masters?: number
  readonly replica?: boolean
  readonly config?: ServerConfig
} = {}): Promise<readonly TestServer[]> {
  const busPorts = new Map<number, number>()
  const names = Array.from({ length: masters + (replica ? 1 : 0) }, (_, nr) => `node-${nr + 1}`)
  const nodes = await Promise.all(
    names.map(async (name) => {
      const busPort = await takePort('127.0.0.1')
      const own = { 'cluster-enabled': 'yes', 'cluster-port': String(busPort) }
      const node = await startServer({ name, config: { ...own, ...config } })
      busPorts.set(node.port, busPort)
      return node
    }),
  )
  const clients = nodes.map(({ url }) => new Redis(url))
  const share = (part: number): number => Math.floor((part * SLOTS) / masters)
  for (const [index, redis] of clients.entries()) {
    await redis.call('CLUSTER', 'SET-CONFIG-EPOCH', index + 1)
    if (index === masters) continue
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
      const known = `cluster_known_nodes:${nodes.length}`
      return infos.every(
        (info) => /cluster_state:ok/.test(String(info)) && String(info).includes(known),
      )
    },
    50_000,
  )
  const [first, last] = [clients[0], clients[masters]]
  if (last !== undefined) {
    await last.call('CLUSTER', 'REPLICATE', String(await first?.call('CLUSTER', 'MYID')))
    await hasCopied(last)
  }
  for (const redis of clients) redis.disconnect()
  return nodes
}

/** Which node has the slot of a key, once one of them says so. */
export async function ownerOf(clients: readonly Redis[], key: string): Promise<number> {
  let owner = -1
  await until('a node has the slot', async () => {
    // The others say that it has moved.
    const owners = clients.map((redis) =>
      redis.type(key).then(
        () => true,
        () => false,
      ),
    )
    owner = (await Promise.all(owners)).indexOf(true)
    return owner >= 0
  })
  return owner
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
    const from = await ownerOf(clients, key)
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
