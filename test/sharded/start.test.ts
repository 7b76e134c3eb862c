/** What starts while the server of the first shard refuses to be asked. */
import { Redis } from 'ioredis'
import { expect, test } from 'vitest'
import { ShardedQueue, ShardedQueueEvents, ShardedWorker, silentLogger } from '../../src/index.ts'
import { until, useFleet } from '../fixtures.ts'
import { watchLeaks } from '../support/leaks.ts'
import { CUSTOMERS, resourceOf, type Charge } from './charge.ts'

const fixture = useFleet({ masters: 1 })

function makeQueue(): ShardedQueue<Charge> {
  const options = { connection: fixture.connection, shards: 4, resource: resourceOf }
  return fixture.closing(new ShardedQueue<Charge>(fixture.namespace, options))
}

/** Jobs in all shards, and a server that is full. Returns how to make room. */
async function full(): Promise<() => Promise<unknown>> {
  const { url } = fixture.fleet.queue
  const queue = makeQueue()
  await queue.addBulk(CUSTOMERS.map((customer) => ({ name: 'charge', data: { customer, nr: 1 } })))
  const redis = new Redis(url)
  const makeRoom = (): Promise<unknown> => redis.config('SET', 'maxmemory', '0')
  fixture.defer(async () => {
    await makeRoom()
    redis.disconnect()
  })
  await redis.config('SET', 'maxmemory', '1')
  return makeRoom
}

interface Started {
  readonly worker: ShardedWorker<Charge>
  readonly ran: string[]
  readonly errors: Error[]
}

async function started(shards = 4): Promise<Started> {
  const { connection } = fixture
  const redlock = await fixture.redlock()
  const ran: string[] = []
  const errors: Error[] = []
  const worker = new ShardedWorker<Charge>(
    fixture.namespace,
    ({ data }) => Promise.resolve(ran.push(data.customer)),
    {
      ...{ connection, shards, redlock, concurrency: 4 },
      ...{ resource: (job) => resourceOf(job.data), logger: silentLogger },
    },
  )
  worker.on('error', (error) => errors.push(error))
  fixture.defer(() => worker.close(true))
  return { worker, ran, errors }
}

test('it says so, and begins when it is answered', async () => {
  const makeRoom = await full()
  const { worker, ran, errors } = await started()
  expect([worker.isRunning(), worker.isStarting()]).toEqual([true, true])
  await until('it says so', () => errors.some(({ message }) => message.startsWith('OOM')))
  expect(ran).toEqual([])
  await makeRoom()
  await until('all ran', () => ran.length === CUSTOMERS.length)
  expect(worker.isStarting()).toBe(false)
})

test('pause, resume and close need no answer', async () => {
  const makeRoom = await full()
  const { worker, ran, errors } = await started()
  await until('it says so', () => errors.length > 0)
  await worker.pause()
  expect(worker.isPaused()).toBe(true)
  await worker.resume()
  expect(worker.isPaused()).toBe(false)
  const other = await started()
  await other.worker.close()
  await makeRoom()
  await until('all ran', () => ran.length === CUSTOMERS.length)
  expect(other.ran).toEqual([])
})

test('a worker that closes before its server has answered leaves no timer', async () => {
  const redlock = await fixture.redlock()
  const leaks = watchLeaks({ settleMs: 4_000 })
  const worker = new ShardedWorker(fixture.namespace, () => Promise.resolve(), {
    ...{ connection: { port: 1 }, shards: 2, redlock, resource: () => 'a', logger: silentLogger },
  })
  let errors = 0
  worker.on('error', () => errors++)
  await until('it has tried', () => errors > 2)
  await worker.close()
  await redlock.close()
  await leaks.assertNone()
})

test('another number of shards is told once, also where it is resumed', async () => {
  const makeRoom = await full()
  const { worker, errors } = await started(2)
  await until('it says so', () => errors.length > 0)
  await makeRoom()
  const differ = (): number =>
    errors.filter((one) => 'code' in one && one.code === 'SHARDS_DIFFER').length
  await until('the difference is told', () => differ() > 0)
  await until('all shards have ended', () => !worker.isRunning())
  await worker.pause()
  await worker.resume()
  await until('it has ended', () => !worker.isRunning())
  expect(differ()).toBe(1)
})

test('events are heard when it answers', async () => {
  const { host, port, url } = fixture.fleet.queue
  const queue = makeQueue()
  await queue.waitUntilReady()
  const redis = new Redis(url)
  const allow = (): Promise<unknown> => redis.call('ACL', 'SETUSER', 'default', '+hget')
  fixture.defer(async () => {
    await allow()
    redis.disconnect()
  })
  await redis.call('ACL', 'SETUSER', 'default', '-hget')
  const errors: string[] = []
  const make = (): ShardedQueueEvents => {
    const events = new ShardedQueueEvents(fixture.namespace, {
      connection: { host, port },
      shards: 4,
    })
    events.on('error', ({ message }) => errors.push(message))
    fixture.defer(() => events.close())
    return events
  }
  const [events, other] = [make(), make()]
  await until('both say so', () => errors.filter((one) => one.startsWith('NOPERM')).length === 2)
  await other.close()
  await allow()
  const heard = new Set<string>()
  events.on('waiting', ({ jobId }) => heard.add(jobId.slice(0, 1)))
  const jobs = CUSTOMERS.map((customer) => ({ name: 'charge', data: { customer, nr: 1 } }))
  await until('all shards are heard', async () => {
    await queue.addBulk(jobs)
    return heard.size === 4
  })
})
