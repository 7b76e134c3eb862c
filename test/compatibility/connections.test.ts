/**
 * The queue's Redis and the lock masters: which clients are taken, and what happens when a server
 * is away.
 */
import { createNodeRedisClient, type ConnectionOptions } from 'bullmq'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { LockedWorker, Redlock, silentLogger } from '../../src/index.ts'
import { startFleet, startServer } from '../../src/testing/index.ts'
import { differs, ours, same, useSides } from './differential.ts'
import { pause, range, type Side } from './side.ts'

useSides()

/** Longer than ours gives BullMQ to end its connections. */
const NEVER_MS = 9_000

const within = (work: Promise<unknown>): Promise<string> =>
  Promise.race([
    work.then(
      () => 'ended',
      () => 'ended',
    ),
    pause(NEVER_MS).then(() => 'never'),
  ])

async function runsInOrder(side: Side, connection: ConnectionOptions): Promise<object> {
  const queue = side.queue({ connection })
  side.worker(() => pause(2), { connection })
  await side.addTo(queue, 'a', range(1, 5))
  await side.ended(5)
  return { order: side.order, waiting: await queue.getWaitingCount() }
}

same(
  'a node-redis client as the connection',
  async (side) => {
    const { host, port } = side.connection
    const client = createClient({ socket: { host, port } })
    client.on('error', () => undefined)
    await client.connect()
    try {
      return { ...(await runsInOrder(side, createNodeRedisClient(client))) }
    } finally {
      await side.close()
      client.destroy()
    }
  },
  { order: range(1, 5), waiting: 0 },
)

same(
  'an ioredis client as the connection',
  async (side) => {
    const client = new Redis({ ...side.connection, maxRetriesPerRequest: null })
    const found = await runsInOrder(side, client)
    await side.close()
    const open = client.status
    client.disconnect()
    return { ...found, open }
  },
  { order: range(1, 5), waiting: 0, open: 'ready' },
)

same(
  'an ioredis client with enableAutoPipelining as the connection',
  async (side) => {
    const options = { maxRetriesPerRequest: null, enableAutoPipelining: true }
    const client = new Redis({ ...side.connection, ...options })
    const found = await runsInOrder(side, client)
    await side.close()
    client.disconnect()
    return { ...found }
  },
  { order: range(1, 5), waiting: 0 },
)

same(
  'skipVersionCheck, skipWaitingForReady, skipMetasUpdate and streams are taken',
  async (side) => {
    const options = { skipVersionCheck: true, skipWaitingForReady: true }
    const queue = side.queue({
      ...options,
      skipMetasUpdate: true,
      streams: { events: { maxLen: 100 } },
    })
    await queue.waitUntilReady()
    side.worker(() => undefined, options)
    await side.addTo(queue, 'a', [1, 2])
    return side.orderAfter(2)
  },
  { order: [1, 2] },
)

differs(
  'worker.close ends while the queue’s Redis is away',
  async (side) => {
    const server = await startServer({ name: 'away' })
    side.defer(() => server.close())
    const connection = { host: server.host, port: server.port }
    const queue = side.queue({ connection })
    const worker = side.worker(() => undefined, { connection })
    await side.addTo(queue, 'a', [1])
    await side.ended(1)
    await server.kill()
    await pause(100)
    const [ofWorker, ofQueue] = await Promise.all([within(worker.close()), within(queue.close())])
    return { worker: ofWorker, queue: ofQueue }
  },
  {
    bullmq: { worker: 'never', queue: 'ended' },
    ours: { worker: 'ended', queue: 'ended' },
  },
)

differs(
  'queue.close ends while the queue’s Redis is silent',
  async (side) => {
    const server = await startServer({ name: 'silent' })
    side.defer(() => server.close())
    const queue = side.queue({ connection: { host: server.host, port: server.port } })
    await queue.waitUntilReady()
    await server.freeze()
    return { queue: await within(queue.close()) }
  },
  { bullmq: { queue: 'never' }, ours: { queue: 'ended' } },
)

ours(
  'drain ends within its time while the queue’s Redis is away',
  async (side) => {
    const server = await startServer({ name: 'away' })
    side.defer(() => server.close())
    const connection = { host: server.host, port: server.port }
    const queue = side.queue({ connection })
    const worker = side.worker(() => undefined, { connection })
    if (!(worker instanceof LockedWorker)) throw new TypeError('it is for our worker')
    await side.addTo(queue, 'a', [1])
    await side.ended(1)
    await server.kill()
    await pause(100)
    return { drain: await within(worker.drain({ timeoutMs: 100 })) }
  },
  { drain: 'ended' },
)

same(
  'jobs continue in order when the queue’s Redis is back',
  async (side) => {
    const server = await startServer({
      name: 'back',
      config: { appendonly: 'yes', appendfsync: 'always' },
    })
    side.defer(() => server.close())
    const connection = { host: server.host, port: server.port }
    const queue = side.queue({ connection })
    const gate = side.gate()
    side.worker(
      async ({ data }) => {
        if (data.nr === 1) await gate.passed
      },
      { connection, stalledInterval: 200, lockDuration: 1_000 },
    )
    await side.addTo(queue, 'a', range(1, 4))
    await side.started(1)
    await server.restart()
    gate.open()
    await side.until('all ran', () => new Set(side.order).size === 4, 8_000)
    return { first: side.order.filter((nr, index, all) => all.indexOf(nr) === index) }
  },
  { first: range(1, 4) },
)

ours(
  'a master that is refused does not keep a worker from starting while a quorum votes',
  async (side) => {
    const fleet = await startFleet({ masters: 3, queue: false })
    const evicting = await startServer({
      name: 'evicting',
      config: { maxmemory: '100mb', 'maxmemory-policy': 'allkeys-lru' },
    })
    const masters = [...fleet.urls.slice(0, 2), evicting.url]
    const options = { namespace: side.redlock.namespace, leaseMs: 5_000, maxLeaseMs: 6_000 }
    // All three are fine when the fleet is new; then one is set up wrongly.
    const founder = new Redlock({ masters: fleet.urls, ...options, logger: silentLogger })
    await founder.ready()
    await founder.bootstrap({ newFleet: true })
    await founder.close()
    const redlock = new Redlock({ masters, ...options, logger: silentLogger })
    side.defer(() => redlock.close())
    side.defer(() => fleet.close())
    side.defer(() => evicting.close())
    side.worker(() => undefined, { ours: { redlock } })
    await side.add('a', [1])
    return side.orderAfter(1)
  },
  { order: [1] },
)
