/**
 * The queue on a Redis Cluster of three nodes, as BullMQ documents it: a prefix in braces, and an
 * ioredis Cluster as connection.
 */
import { once } from 'node:events'
import type { Job } from 'bullmq'
import { Redis, type Cluster } from 'ioredis'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { systemClock, withinMs } from '../../src/clock.ts'
import {
  silentLogger,
  type LockedQueue,
  type LockedWorker,
  type LockedWorkerOptions,
} from '../../src/index.ts'
import { LineBackend } from '../../src/line/line-backend.ts'
import { startServer, type TestServer } from '../../src/testing/index.ts'
import { takePort } from '../../src/testing/free-port.ts'
import { until, useFleet } from '../fixtures.ts'
import { moveSlot, ownerOf, SLOTS, startCluster } from '../support/redis-cluster.ts'

const fixture = useFleet({ masters: 3, queue: false })
let nodes: readonly TestServer[] = []

beforeAll(async () => {
  nodes = await startCluster()
})

afterAll(async () => {
  await Promise.all(nodes.map((node) => node.close()))
})

interface Charge {
  readonly customer: string
  readonly nr: number
}

interface Sides {
  readonly queue: LockedQueue<Charge>
  readonly work: (
    run: (data: Charge) => Promise<unknown>,
    options?: Partial<LockedWorkerOptions<Charge>>,
  ) => Promise<LockedWorker<Charge>>
}

function sides(
  connection: Cluster | Redis = fixture.cluster(nodes),
  prefix = '{bull}',
  name = fixture.namespace,
): Sides {
  const resource = ({ customer }: Charge): string => customer
  return {
    queue: fixture.lockedQueue<Charge>({ connection, prefix, resource }, name),
    work: async (run, options = {}) => {
      // A busy machine is no silent master.
      const redlock = options.redlock ?? (await fixture.redlock({ masterTimeoutMs: 1_500 }))
      return fixture.lockedWorker<Charge>(
        ({ data }) => run(data),
        {
          ...{ connection, prefix, logger: silentLogger, resource: ({ data }) => resource(data) },
          ...options,
          redlock,
        },
        name,
      )
    },
  }
}

const charge = (nr: number, customer = 'ann') => ({ name: 'charge', data: { customer, nr } })

test('a prefix without braces: queue and worker say what to write', async () => {
  const { queue, work } = sides(fixture.cluster(nodes), 'bull')
  const said = `The Redis of queue \`bull:${queue.name}\` is a cluster: give its prefix in braces`
  await expect(queue.add('charge', { customer: 'a', nr: 1 })).rejects.toThrow(said)
  const worker = await work(() => Promise.resolve(), { autorun: false })
  const told = once(worker, 'error')
  worker.run().catch(() => undefined)
  expect(String(await told)).toContain(said)
})

test('jobs run in order, one at a time per customer, and `inspect` and `why` tell', async () => {
  const { queue, work } = sides()
  const runs: string[] = []
  const running = new Set<string>()
  const redlock = await fixture.redlock({ masterTimeoutMs: 1_500 })
  const run = async ({ customer, nr }: Charge): Promise<void> => {
    expect(running.has(customer)).toBe(false)
    running.add(customer)
    runs.push(`${customer}${nr}`)
    await new Promise((resolve) => setTimeout(resolve, 3))
    running.delete(customer)
  }
  const other = sides(fixture.cluster(nodes))
  const options = { redlock, concurrency: 4, checkpoints: true }
  const [worker] = [await work(run, options), await other.work(run, options)]
  const customers = ['ann', 'bob', 'cid', 'dee', 'eve']
  const each = 8
  await queue.addBulk(
    Array.from({ length: each }, (_, nr) =>
      customers.map((customer) => charge(nr, customer)),
    ).flat(),
  )
  await until('all are done', async () => {
    return (await queue.getCompletedCount()) === customers.length * each
  })
  for (const customer of customers) {
    const order = runs.filter((run) => run.startsWith(customer))
    expect(order).toEqual(Array.from({ length: each }, (_, nr) => `${customer}${nr}`))
  }
  expect(await queue.getFailedCount()).toBe(0)

  const held = await redlock.acquire('fay', { autoExtend: true })
  const [, second] = await queue.addBulk([charge(0, 'fay'), charge(1, 'fay')])
  await until('both stand in line', async () => (await worker.inspect('fay')).line.length === 2)
  expect(await worker.why(second?.id ?? '')).toMatch(/in line for `fay`.*1 ahead of it/)
  await held.release()
  await until('both are done', () => runs.includes('fay1'))
})

test('while the slot of a queue moves, no script runs with half of its keys', async () => {
  const prefix = '{moving}'
  const { queue, work } = sides(fixture.cluster(nodes), prefix)
  const ran: number[] = []
  const gate = fixture.gate()
  const worker = await work(async ({ nr }) => {
    if (nr === 0) await gate.passed
    ran.push(nr)
  })
  const add = (nr: number): Promise<Job<Charge>> => queue.add('charge', { customer: 'ann', nr })
  for (let nr = 0; nr < 4; nr++) await add(nr)
  await queue.pauseResource('bob')
  let running: Job<Charge> | undefined
  await until('the first runs', async () => ([running] = await queue.getActive()).length > 0)
  const answers: unknown[] = []
  await moveSlot(nodes, `${prefix}:${fixture.namespace}:meta`, async () => {
    const { id = '', token = '' } = running ?? {}
    const [limits, , , lost] = await Promise.allSettled([
      queue.getAllLimits(),
      queue.setSlots('cid', 2),
      add(4),
      worker.extendJobLocks([id], [token], 6_000),
    ])
    answers.push(limits, lost)
  })
  // Nothing is said that is not so: a question that cannot be answered rejects.
  for (const answer of answers) expect(answer).toMatchObject({ status: 'rejected' })
  await add(5)
  gate.open()
  await until('all are done', () => ran.includes(5))
  expect(ran).toEqual([0, 1, 2, 3, 5])
  expect([...(await queue.getAllLimits()).keys()]).toEqual(['bob'])
}, 60_000)

test('a busy worker pauses when its job has ended, and goes on when it resumes', async () => {
  const { queue, work } = sides()
  const [gate, ran] = [fixture.gate(), [] as number[]]
  const worker = await work(async ({ nr }) => {
    ran.push(nr)
    if (nr === 0) await gate.passed
  })
  await queue.add('charge', { customer: 'ann', nr: 0 })
  await until('it runs', () => ran.length === 1)
  const pausing = worker.pause()
  // Meanwhile the connections of the client that waits for jobs close, one by one.
  await new Promise((resolve) => setTimeout(resolve, 500))
  gate.open()
  await pausing
  await queue.add('charge', { customer: 'ann', nr: 1 })
  await worker.resume()
  await until('the next job has run', () => ran.length === 2)
}, 30_000)

test('a worker that pauses while the cluster is down has paused when it is back', async () => {
  const { queue, work } = sides()
  const [ran, gate, slow] = [[] as number[], fixture.gate(), fixture.gate()]
  const worker = await work(async ({ nr }) => {
    ran.push(nr)
    await gate.passed
  })
  await queue.add('charge', { customer: 'ann', nr: 0 })
  await until('it runs', () => ran.length === 1)
  const lines = LineBackend.of(worker)
  const reconnect = lines.reconnectBlocking.bind(lines)
  vi.spyOn(lines, 'reconnectBlocking').mockImplementationOnce(async () => {
    await slow.passed
    await reconnect()
  })
  const pausing = worker.pause().then(() => true)
  gate.open()
  await until('its job has ended', () => !worker.isRunning())
  const clients = nodes.map((node) => fixture.redis(node))
  const slot = String(await clients[0]?.call('CLUSTER', 'KEYSLOT', 'unused'))
  const owner = clients[await ownerOf(clients, 'unused')] as Redis
  const isWhole = async (): Promise<boolean> => {
    const infos = await Promise.all(clients.map((client) => client.call('CLUSTER', 'INFO')))
    return infos.every((info) => String(info).includes('cluster_state:ok'))
  }
  for (const client of [owner, ...clients.filter((each) => each !== owner)])
    await client.call('CLUSTER', 'DELSLOTS', slot)
  slow.open()
  expect(await withinMs(systemClock, 1_000, pausing)).toBeUndefined()
  await owner.call('CLUSTER', 'ADDSLOTS', slot)
  await until('it is whole', isWhole)
  expect(await withinMs(systemClock, 15_000, pausing)).toBe(true)
  await worker.resume()
  await queue.add('charge', { customer: 'ann', nr: 1 })
  await until('the next job has run', () => ran.length === 2)
}, 60_000)

test('nodes that refuse the login keep no queue and no worker of another node from their jobs', async () => {
  const clients = nodes.map((node) => fixture.redis(node))
  const logins = (rule: string): Promise<unknown> =>
    Promise.all(others.map((client) => client.config('SET', 'requirepass', rule)))
  fixture.defer(() => logins(''))
  const owner = await ownerOf(clients, '{bull}')
  const others = clients.filter((_, nr) => nr !== owner)
  await logins('secret')
  const redlock = await fixture.redlock({ masterTimeoutMs: 1_500 })
  const ran: number[] = []
  // Each connection asks a node of chance for its version.
  for (let nr = 0; nr < 3; nr++) {
    const { queue, work } = sides(fixture.cluster(nodes), '{bull}', `${fixture.namespace}-${nr}`)
    queue.on('error', () => undefined)
    await work(({ nr: done }) => Promise.resolve(ran.push(done)), { redlock })
    await queue.add('charge', { customer: 'ann', nr })
  }
  await until('all have run', () => ran.length === 3, 20_000)
}, 60_000)

test('a plain client and a Cluster client of one queue meet', async () => {
  const config = {
    ...{ 'cluster-enabled': 'yes', 'cluster-port': String(await takePort('127.0.0.1')) },
    'cluster-announce-ip': '127.0.0.1', // It has met no other node, from which to know it.
  }
  const node = fixture.closing(await startServer({ name: 'only-node', config }))
  const plain = new Redis(node.url, { maxRetriesPerRequest: null })
  fixture.defer(() => {
    plain.disconnect()
  })
  await plain.call('CLUSTER', 'ADDSLOTSRANGE', 0, SLOTS - 1)
  await until('it serves', async () =>
    String(await plain.call('CLUSTER', 'INFO')).includes('cluster_state:ok'),
  )
  const cluster = fixture.cluster([node])
  const redlock = await fixture.redlock({ masterTimeoutMs: 1_500 })
  for (const [adds, works] of [
    [plain, cluster],
    [cluster, plain],
  ] as const) {
    const name = `${fixture.namespace}-${adds === plain ? 'plain' : 'cluster'}`
    const { queue } = sides(adds, '{bull}', name)
    await queue.setSlots('ann', 1)
    await queue.addBulk(Array.from({ length: 10 }, (_, nr) => charge(nr)))
    const ran: number[] = []
    const run = ({ nr }: Charge): Promise<unknown> => Promise.resolve(ran.push(nr))
    await sides(works, '{bull}', name).work(run, { redlock })
    await until('all ran', () => ran.length === 10)
    expect(ran).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
  }
}, 60_000)
