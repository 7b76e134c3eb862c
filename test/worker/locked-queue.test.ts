/**
 * LockedQueue beside what BullMQ offers: jobs that are added twice, that wait too long, flows and
 * schedulers.
 */
import { once } from 'node:events'
import { Worker } from 'bullmq'
import { expect, test, vi } from 'vitest'
import {
  LockedQueue,
  lockedProcessor,
  ShardedQueueEvents,
  silentLogger,
  type LockedWorkerOptions,
} from '../../src/index.ts'
import { until, useFleet } from '../fixtures.ts'
import { lockedJobs } from '../support/locked-jobs.ts'

interface Charge {
  readonly customer: string
  readonly nr: number
}

const fixture = useFleet({ masters: 3 })
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

const { makeQueue, work } = lockedJobs<Charge>(fixture, ({ customer }) => `customer:${customer}`, {
  concurrency: 4,
})

interface Work {
  readonly runs: number[]
  /** The most jobs of one customer at once. */
  most: number
}

async function startWorkers(
  count: number,
  options: Partial<LockedWorkerOptions<Charge>> = {},
  stepMs = 3,
): Promise<Work> {
  const seen: Work = { runs: [], most: 0 }
  const inside = new Map<string, number>()
  const redlock = await fixture.redlock()
  for (let index = 0; index < count; index++) {
    const run = async ({ data: { customer, nr } }: { readonly data: Charge }): Promise<number> => {
      seen.runs.push(nr)
      const now = (inside.get(customer) ?? 0) + 1
      inside.set(customer, now)
      seen.most = Math.max(seen.most, now)
      await pause(stepMs)
      inside.set(customer, now - 1)
      return nr
    }
    await work(run, { redlock, ...options })
  }
  return seen
}

test('without a `connection` it uses the usual address, as BullMQ does', async () => {
  // Their types ask for one.
  const [one, two] = [{ resource: () => 'a' } as never, { shards: 2 } as never]
  const queue = new LockedQueue(fixture.namespace, one)
  const events = new ShardedQueueEvents(fixture.namespace, two)
  queue.on('error', () => undefined)
  events.on('error', () => undefined)
  await Promise.all([queue.close(), events.close()])
})

test('adds while a test runner has replaced all timers, as BullMQ does', async () => {
  const queue = makeQueue()
  await queue.waitUntilReady()
  vi.useFakeTimers()
  try {
    await queue.add('charge', { customer: 'a', nr: 1 })
    await queue.addBulk([{ name: 'charge', data: { customer: 'a', nr: 2 } }])
    expect(await queue.count()).toBe(2)
  } finally {
    vi.useRealTimers()
  }
})

test('maxWaitMs: a job asleep behind others fails in time, not only when its turn comes', async () => {
  const queue = makeQueue({ maxWaitMs: 300 })
  const lease = await (await fixture.redlock()).acquire('customer:a', { autoExtend: true })
  const seen = await startWorkers(1, { maxWaitMs: 300 })
  await queue.addBulk([1, 2, 3].map((nr) => ({ name: 'x', data: { customer: 'a', nr } })))
  await until('all have failed', async () => (await queue.getFailedCount()) === 3)
  expect(seen.runs).toEqual([])
  for (const { failedReason } of await queue.getFailed()) {
    expect(failedReason).toMatch(/`customer:a` longer than/)
  }
  await lease.release()
})

test.each([
  ['in line', {}],
  ['with shares', { weight: () => 1 }],
  ['with a rate', { rate: () => ({ limit: 1, perMs: 20 }) }],
])('maxWaitMs: nothing of it is kept of jobs that ran, %s', async (_, options) => {
  const maxWaitMs = 3_600_000
  const queue = makeQueue({ maxWaitMs, ...options })
  const plain = fixture.plainQueue<Charge>()
  for (let nr = 0; nr < 9; nr++) {
    const customer = nr === 8 ? 'b' : 'a' // The last one has no other before it.
    await queue.add('x', { customer, nr }, nr % 3 === 0 ? { priority: 1 } : {})
    await plain.add('x', { customer, nr })
  }
  const client = fixture.redis()
  const deadlines = (): Promise<number> => client.zcard(queue.toKey('redlock:::deadlines'))
  expect(await deadlines()).toBeGreaterThan(0)
  await startWorkers(2, { maxWaitMs })
  await until('all ran', async () => (await queue.getCompletedCount()) === 18)
  expect(await deadlines()).toBe(0)
})

test('a scheduler goes on after jobs that fail before they start', async () => {
  const queue = makeQueue()
  const seen: (string | undefined)[] = []
  const worker = await work(() => Promise.resolve(), {
    autorun: false,
    resource: () => {
      throw new Error('it has none')
    },
  })
  worker.on('failed', (job) => seen.push(job?.failedReason))
  const first = await queue.upsertJobScheduler(
    'often',
    { every: 50 },
    { data: { customer: 'a', nr: 1 } },
  )
  const client = fixture.redis()
  await client.hset(queue.toKey(first.id ?? ''), 'defa', 'its child failed')
  void worker.run()
  await until('three have failed', () => seen.length >= 3)
  expect(seen[0]).toBe('its child failed')
  expect(seen[1]).toContain('it has none')
})

test('a scheduler that is faster than its jobs adds no more in a plain worker than without us', async () => {
  const queue = fixture.plainQueue()
  let runs = 0
  const options = { resource: () => 'customer:a', logger: silentLogger }
  const processor = lockedProcessor(await fixture.redlock(), options, async () => {
    await pause(300)
    runs++
  })
  const worker = new Worker(fixture.namespace, processor, {
    ...{ connection: fixture.connection, concurrency: 2 },
  })
  fixture.defer(() => worker.close())
  await queue.upsertJobScheduler('often', { every: 50 }, { name: 'tick', data: {} })
  await until('some ran', () => runs >= 5)
  const { waiting = 0, active = 0, delayed = 0 } = await queue.getJobCounts()
  await queue.removeJobScheduler('often')
  expect(waiting + active + delayed).toBeLessThanOrEqual(4)
})

test('a plain worker closes while the job of a scheduler waits for its lease', async () => {
  const queue = fixture.plainQueue()
  const redlock = await fixture.redlock()
  const held = await redlock.acquire('customer:a', { autoExtend: true })
  const options = { resource: () => 'customer:a', logger: silentLogger }
  const processor = lockedProcessor(redlock, options, () => Promise.resolve())
  const { connection, namespace } = fixture
  const worker = new Worker(namespace, processor, { connection })
  const active = once(worker, 'active')
  await queue.upsertJobScheduler('hourly', { every: 3_600_000 }, { name: 'tick', data: {} })
  await active
  const closing = worker.close()
  fixture.defer(() => closing)
  const closed = await Promise.race([closing.then(() => 'closed'), pause(5_000)])
  await held.release()
  expect(closed).toBe('closed')
  expect(await queue.getActiveCount()).toBe(0)
})

test('a client that the user has given keeps nothing of a queue that was closed', async () => {
  const client = fixture.redis()
  await client.ping()
  const before = client.listenerCount('error')
  const queue = makeQueue({ connection: client })
  await queue.add('charge', { customer: 'ann', nr: 1 })
  await queue.close()
  expect(client.listenerCount('error')).toBe(before)
})
