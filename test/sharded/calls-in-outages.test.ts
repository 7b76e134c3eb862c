/**
 * The server of one shard is away: each call ends, and its error names the shard. The other shards
 * go on, and nothing is lost when the server is back.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { Cluster } from 'ioredis'
import { expect, test, vi } from 'vitest'
import {
  ShardedQueue,
  ShardedQueueEvents,
  ShardedWorker,
  silentLogger,
  type LockedWorker,
} from '../../src/index.ts'
import { LineBackend } from '../../src/line/line-backend.ts'
import type { TestServer } from '../../src/testing/index.ts'
import { until } from '../fixtures.ts'
import { startProxy, type FaultProxy } from '../support/proxy.ts'
import { cli } from '../tools/cli/run-cli.ts'
import { charges, CUSTOMERS, resourceOf, shardOfCustomer, type Charge } from './charge.ts'
import { HANGS, REFUSES, useCluster, type Trouble } from './cluster.ts'

const fixture = useCluster()
const AWAY = shardOfCustomer('ann')
const OTHER = CUSTOMERS.find((customer) => shardOfCustomer(customer) !== AWAY) ?? ''

const OUTAGES: Readonly<Record<string, (proxy: FaultProxy) => Trouble>> = {
  hangs: () => HANGS,
  'is cut off': (proxy) => ({ begin: () => proxy.drop(), end: () => proxy.pass() }),
  refuses: () => REFUSES,
}

/** By a proxy to one of its nodes. */
function connect(proxy: FaultProxy, node: TestServer): Cluster {
  const natMap = { [`${node.host}:${node.port}`]: { host: '127.0.0.1', port: proxy.port } }
  const seeds = fixture.nodes.filter((each) => each !== node)
  return fixture.cluster(seeds, { natMap })
}

test.each(Object.entries(OUTAGES))('a node %s', async (_, outage) => {
  const node = fixture.nodeOf(AWAY)
  const proxy = fixture.closing(await startProxy(node.port))
  const trouble = outage(proxy)
  const reads = trouble === REFUSES
  const [ofQueue, ofWorker] = [connect(proxy, node), connect(proxy, node)]
  const queue = fixture.queue({ connection: ofQueue })
  const ran: string[] = []
  const worker = await fixture.worker(
    ({ data }) => Promise.resolve(void ran.push(`${data.customer}${data.nr}`)),
    { connection: ofWorker },
  )
  const reports: string[] = []
  worker.on('error', ({ message }) => reports.push(message))
  const add = (customer: string, nr: number) => queue.add('charge', { customer, nr })
  const [gone, there] = [await add('ann', 0), await add(OTHER, 0)]
  await until('both are done', async () => (await queue.getCompletedCount()) === 2)
  const goOn = await fixture.inTrouble(trouble, AWAY)
  const prefix = queue.shards[AWAY]?.opts.prefix ?? ''

  const ofOthers = [add(OTHER, 1), queue.getJob(there.id ?? ''), worker.why(there.id ?? '')]
  expect(await Promise.all(ofOthers)).not.toContain(undefined)
  await until('it has run', () => ran.includes(`${OTHER}1`))
  const questions = [
    queue.getJob(gone.id ?? ''),
    queue.getJobs(),
    queue.getJobCounts(),
    worker.why(gone.id ?? ''),
    worker.inspect(resourceOf({ customer: 'ann' })),
  ]
  const changes = [add('ann', 1), queue.pause(), queue.drain(), queue.obliterate({ force: true })]
  const named = `\`${prefix}:${fixture.namespace}\``
  const reason = {
    code: 'SHARD_UNREACHABLE',
    shard: AWAY,
    message: expect.stringContaining(named) as unknown,
  }
  const refused: unknown = { status: 'rejected', reason }
  const [asked, changed, [paused]] = await Promise.all([
    Promise.allSettled(questions),
    Promise.allSettled(changes),
    // It waits for the server only where that owes it an answer.
    Promise.allSettled([worker.pause()]),
  ])
  if (paused.status === 'rejected') expect(paused).toMatchObject(refused as object)
  expect(changed).toMatchObject(changes.map(() => refused))
  expect(asked).toMatchObject(questions.map(() => (reads ? { status: 'fulfilled' } : refused)))
  if (!reads) expect(reports.join('\n')).toContain(`${named} has not answered`)
  await worker.drain({ timeoutMs: 100 })
  await Promise.all([worker.close(), queue.close()])
  // Else they would send a `pause` again that was given up.
  for (const client of [ofQueue, ofWorker]) client.disconnect()

  await goOn()
  const next = fixture.queue()
  await until('it answers', () => next.resume().then(Boolean.bind(null, true), () => false))
  await fixture.worker(({ data }) => Promise.resolve(void ran.push(`${data.customer}${data.nr}`)))
  await next.add('charge', { customer: 'ann', nr: 2 })
  await until('the next has run', () => ran.includes('ann2'))
  expect(new Set(ran).size).toBe(ran.length)
})

test('a node that takes no more clients', async () => {
  const redis = fixture.redis(fixture.nodeOf(AWAY))
  const [, clients = ''] = await redis.config('GET', 'maxclients')
  const queue = fixture.queue()
  await queue.getJobCounts()
  fixture.defer(() => redis.config('SET', 'maxclients', clients))
  await redis.config('SET', 'maxclients', '1')
  await redis.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
  const refused = {
    code: 'SHARD_UNREACHABLE',
    message: expect.stringMatching(/^ERR max number of clients.* reached\. This/) as unknown,
    queue: queue.shards[AWAY]?.qualifiedName,
  }
  const calls = [queue.getJobCounts(), queue.add('charge', { customer: 'ann', nr: 0 })]
  expect(await Promise.allSettled(calls)).toMatchObject([{ reason: refused }, { reason: refused }])
})

test('what starts while a node hangs works on the others', async () => {
  const last = 3
  const redlock = await fixture.redlock()
  const thaw = await fixture.inTrouble(HANGS, last)
  const there = CUSTOMERS.filter((customer) => shardOfCustomer(customer) !== last)
  // Each connection asks any node for its version, and tells any node its name.
  const names = Array.from({ length: 4 }, (_, nr) => `${fixture.namespace}-${nr}`)
  const connect = (): Cluster => fixture.cluster(fixture.nodes, { enableReadyCheck: false })
  const outcomes = names.map(async (name) => {
    const [ran, heard] = [new Set<string>(), new Set<string>()]
    const queue = new ShardedQueue<Charge>(name, {
      ...{ connection: connect(), shards: 4, resource: resourceOf },
    })
    const worker = new ShardedWorker<Charge>(
      name,
      ({ data }) => Promise.resolve(ran.add(data.customer)),
      {
        ...{ connection: connect(), shards: 4, redlock, concurrency: 8, logger: silentLogger },
        resource: ({ data }) => resourceOf(data),
      },
    )
    const events = new ShardedQueueEvents(name, { connection: connect(), shards: 4 })
    events.on('waiting', ({ jobId }) => heard.add(jobId.slice(0, 1)))
    queue.on('error', () => undefined)
    worker.on('error', () => undefined)
    events.on('error', () => undefined)
    for (const each of [queue, worker, events]) fixture.closing(each)
    await until('all have run and are heard', async () => {
      await Promise.all(there.map((customer) => queue.add('charge', { customer, nr: 0 })))
      return ran.size === there.length && heard.size === last
    })
  })
  await Promise.all(outcomes)
  await thaw() // Before the others take it for dead.
})

test('an estimate waits for no node of another shard', async () => {
  const queue = fixture.queue()
  const gate = fixture.gate()
  await fixture.worker(({ data }) => (data.nr === 0 ? Promise.resolve() : gate.passed))
  const add = (nr: number) => queue.add('charge', { customer: OTHER, nr })
  await add(0)
  await until('one is done', async () => (await queue.getCompletedCount()) === 1)
  await add(1)
  const { id = '' } = await add(2)
  await fixture.inTrouble(HANGS, AWAY)
  const position = await queue.position(id)
  expect(position).toMatchObject({ ahead: 1, estimate: expect.anything() as unknown })
})

test('leave-lines goes on with the other shards, and names the one that is away', async () => {
  const queue = fixture.queue()
  await queue.addBulk(charges(2))
  const env = { ...fixture.env, BULLMQ_REDLOCK_QUEUE: fixture.nodes[0]?.url }
  const args = ['leave-lines', queue.name, '--yes', '--json', '--prefix', 'bull']
  const thaw = await fixture.inTrouble(HANGS, AWAY)
  const { code, out, err } = await cli(args, { env })
  const left = CUSTOMERS.filter((customer) => shardOfCustomer(customer) !== AWAY).length
  expect([code, JSON.parse(out)]).toEqual([1, { queue: queue.name, jobs: left }])
  expect(JSON.parse(err.trim().split('\n').at(-1) ?? '')).toMatchObject({
    code: 'SHARD_UNREACHABLE',
    message: expect.stringContaining(`This is shard ${AWAY}, `) as unknown,
  })
  await thaw()
  const again = await cli(args, { env })
  expect([again.code, JSON.parse(again.out)]).toMatchObject([0, { jobs: CUSTOMERS.length - left }])
})

test('while a node refuses the login, listeners hear the other shards, and that one later', async () => {
  const last = 3
  const redis = fixture.redis(fixture.nodeOf(last))
  const logins = (password: string): Promise<unknown> =>
    redis.config('SET', 'requirepass', password)
  fixture.defer(() => logins(''))
  const queue = fixture.queue()
  const addTo = (are: (shard: number) => boolean): Promise<unknown> =>
    queue.addBulk(charges(1).filter(({ data }) => are(shardOfCustomer(data.customer))))
  await addTo((shard) => shard === 0)
  await logins('secret')
  // Each connection asks any node for its version, and tells any node its name.
  const listeners = Array.from({ length: 4 }, () => {
    const heard = new Set<string>()
    fixture.events().on('waiting', ({ jobId }) => heard.add(jobId.slice(0, 1)))
    return heard
  })
  const allHear = (shards: number): Promise<void> =>
    until(`all hear ${shards} shards`, async () => {
      await addTo((shard) => shard < shards)
      return listeners.every((heard) => heard.size === shards)
    })
  await allHear(last)
  await logins('')
  await allHear(last + 1)
})

test('a node that starts again empty has lost its jobs, and goes on; those of others stay', async () => {
  const node = fixture.nodeOf(AWAY)
  const queue = fixture.queue()
  await queue.addBulk(charges(1))
  const kept = CUSTOMERS.filter((customer) => shardOfCustomer(customer) !== AWAY)
  await node.kill()
  await node.restart()
  await until('it has met the others', () =>
    queue.count().then(
      (count) => count === kept.length,
      () => false,
    ),
  )
  const ran: string[] = []
  await fixture.worker(({ data }) => Promise.resolve(void ran.push(`${data.customer}${data.nr}`)))
  await queue.add('charge', { customer: 'ann', nr: 1 })
  const expected = [...kept.map((customer) => `${customer}0`), 'ann1']
  await until('all that is left has run', () => ran.length === expected.length)
  expect(ran.toSorted()).toEqual(expected.toSorted())
})

test('a shard that was refused long ago takes no permit too many', async () => {
  const queue = fixture.queue()
  const gate = fixture.gate()
  let [now, most, done] = [0, 0, 0]
  const run = async (): Promise<void> => {
    most = Math.max(most, ++now)
    await gate.passed
    now--
    done++
  }
  const worker = await fixture.worker(run, { concurrency: 1, autorun: false })
  const refusals: string[] = []
  worker.on('error', ({ message }) => refusals.push(message))
  await worker.inspect('customer:ann')
  const goOn = await fixture.inTrouble(REFUSES, AWAY)
  void worker.run()
  await until('it is refused', () => refusals.some((said) => said.startsWith('NOREPLICAS')))
  await delay(500) // Also what it asks for a job.
  await worker.pause(true)
  await goOn()
  await delay(1_500) // Longer than a server may be silent with its permits.
  const both = ['ann', OTHER].map((customer) => ({ name: 'charge', data: { customer, nr: 0 } }))
  await queue.addBulk(both)
  const away = worker.shards[AWAY] as LockedWorker
  const lines = LineBackend.of(away)
  const moveToActive = lines.moveToActive.bind(lines)
  const slow = fixture.gate()
  const spy = vi.spyOn(lines, 'moveToActive').mockImplementationOnce(async (...args) => {
    await slow.passed
    return moveToActive(...args)
  })
  await away.resume()
  await until('it asks', () => spy.mock.calls.length > 0)
  await worker.resume()
  await delay(300)
  slow.open()
  await until('one runs', () => now > 0)
  await delay(300)
  gate.open()
  await until('both have run', () => done === 2)
  expect(most).toBe(1)
})
