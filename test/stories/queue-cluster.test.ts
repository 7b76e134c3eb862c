/** Queues on a Redis Cluster under load: slots move, and nodes die with and without a replica. */
import { setTimeout as delay } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { describe, expect, test } from 'vitest'
import type { TestServer } from '../../src/testing/index.ts'
import { until, useFleet } from '../fixtures.ts'
import { moveSlot, ownerOf, startCluster } from '../support/redis-cluster.ts'
import { Load } from './queue-load.ts'

const fixture = useFleet({ masters: 3, queue: false })
/** A node that is silent for this long is replaced. */
const NODE_TIMEOUT_MS = 1_000
const AWAY_MS = NODE_TIMEOUT_MS + 2_000

async function start(
  options: Parameters<typeof startCluster>[0] = {},
): Promise<readonly TestServer[]> {
  const common = { appendonly: 'yes', 'cluster-node-timeout': String(NODE_TIMEOUT_MS) }
  const config = { ...common, 'repl-diskless-sync-delay': '0', ...options.config }
  const nodes = await startCluster({ ...options, config })
  fixture.defer(() => Promise.all(nodes.map((node) => node.close())))
  return nodes
}

function startLoad(nodes: readonly TestServer[], prefix: string): Promise<Load> {
  return Load.start(fixture, { connect: () => fixture.cluster(nodes), prefix })
}

/** Which node has the queues of a prefix. */
async function nodeOf(nodes: readonly TestServer[], prefix: string): Promise<number> {
  const clients = nodes.map(({ url }) => new Redis(url))
  const owner = await ownerOf(clients, prefix)
  for (const redis of clients) redis.disconnect()
  return owner
}

/** A prefix whose queues are on that node. */
async function prefixOn(nodes: readonly TestServer[], node: number): Promise<string> {
  for (let nr = 0; ; nr++) {
    const prefix = `{bull${nr}}`
    if ((await nodeOf(nodes, prefix)) === node) return prefix
  }
}

test('the slot of a queue moves twice under load: nothing is lost, and nothing runs twice', async () => {
  const nodes = await start()
  const load = await startLoad(nodes, '{bull}')
  const since = performance.now()
  for (let times = 0; times < 2; times++) {
    await moveSlot(nodes, `{bull}:${fixture.namespace}:meta`, () => delay(300))
    await load.goesOn()
  }
  expect(await load.judge(since, since)).toEqual({ lost: [], repeated: [] })
})

describe('kill -9 of the node that has the queue', () => {
  test('with a replica: it takes over, and the workers go on', async () => {
    const nodes = await start({ replica: true })
    const prefix = await prefixOn(nodes, 0)
    const load = await startLoad(nodes, prefix)
    await load.startSlow()
    const since = performance.now()
    await nodes[0]?.kill()
    const left = nodes.slice(1)
    await until('another node has it', async () => (await nodeOf(left, prefix)) >= 0)
    await load.judge(since, performance.now())
  })

  test('without a replica: its queues wait until it is back, and those of others go on', async () => {
    const config = { 'cluster-require-full-coverage': 'no', appendfsync: 'always' }
    const nodes = await start({ config })
    const [its, others] = await Promise.all([
      startLoad(nodes, await prefixOn(nodes, 0)),
      startLoad(nodes, await prefixOn(nodes, 1)),
    ])
    const since = performance.now()
    await nodes[0]?.kill()
    await delay(AWAY_MS)
    await others.goesOn()
    await nodes[0]?.restart()
    const back = performance.now()
    const [{ lost }, ofOthers] = await Promise.all([
      its.judge(since, back),
      others.judge(since, since),
    ])
    expect(lost).toEqual([])
    expect(its.standstillMs(since)).toBeGreaterThan(AWAY_MS)
    expect(ofOthers).toEqual({ lost: [], repeated: [] })
  })
})
