/**
 * LockedQueue beside what BullMQ offers: jobs that are added twice, that wait too long, flows and
 * schedulers.
 */
import { FlowProducer, Queue, Worker } from 'bullmq'
import { Redis } from 'ioredis'
import { describe, expect, test } from 'vitest'
import {
  lockedProcessor,
  LockedQueue,
  LockedWorker,
  silentLogger,
  type LockedWorkerOptions,
} from '../../src/index.ts'
import { until, useFleet } from '../fixtures.ts'

interface Charge {
  readonly customer: string
  readonly nr: number
}

const fixture = useFleet({ masters: 3 })
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))
const connection = (): { host: string; port: number } => ({
  host: fixture.fleet.queue.host,
  port: fixture.fleet.queue.port,
})

function makeQueue(options: { readonly maxWaitMs?: number } = {}): LockedQueue<Charge> {
  const queue = new LockedQueue<Charge>(fixture.namespace, {
    connection: connection(),
    resource: ({ customer }) => `customer:${customer}`,
    ...options,
  })
  fixture.defer(() => queue.close())
  return queue
}

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
    const worker = new LockedWorker<Charge, number>(
      fixture.namespace,
      async ({ data: { customer, nr } }) => {
        seen.runs.push(nr)
        const now = (inside.get(customer) ?? 0) + 1
        inside.set(customer, now)
        seen.most = Math.max(seen.most, now)
        await pause(stepMs)
        inside.set(customer, now - 1)
        return nr
      },
      {
        connection: connection(),
        redlock,
        resource: (job) => `customer:${job.data.customer}`,
        concurrency: 4,
        ...options,
      },
    )
    worker.on('error', () => undefined)
    fixture.defer(() => worker.close())
  }
  return seen
}

describe('a job that is added again under its name', () => {
  test('stays as it is when it has failed', async () => {
    const queue = makeQueue()
    const plain = new Queue<Charge>(fixture.namespace, { connection: connection() })
    fixture.defer(() => plain.close())
    const job = await plain.add('x', { customer: 'a', nr: 1 }, { jobId: 'j1' })
    await startWorkers(1, { resource: () => '' }) // Fails for good: a resource without a name.
    await until('it failed', async () => (await job.getState()) === 'failed')
    const again = await queue.add('x', { customer: 'a', nr: 1 }, { jobId: 'j1' })
    expect(await again.getState()).toBe('failed')
  })

  test('leaves the line at once when it has finished already', async () => {
    const queue = makeQueue()
    const seen = await startWorkers(1)
    await queue.add('x', { customer: 'a', nr: 1 }, { jobId: 'j1' })
    await until('it is done', async () => (await queue.getCompletedCount()) === 1)
    await queue.add('x', { customer: 'a', nr: 1 }, { jobId: 'j1' })
    const next = await queue.add('x', { customer: 'a', nr: 2 })
    expect(await next.getState()).not.toBe('delayed')
    await until('the next is done', () => seen.runs.length === 2)
    expect(seen.runs).toEqual([1, 2])
  })
})

test('maxWaitMs: a job asleep behind others fails in time, not only when its turn comes', async () => {
  const queue = makeQueue({ maxWaitMs: 300 })
  const lease = await (await fixture.redlock()).acquire('customer:a', { autoExtend: true })
  const seen = await startWorkers(1, { maxWaitMs: 300 })
  await queue.addBulk([1, 2, 3].map((nr) => ({ name: 'x', data: { customer: 'a', nr } })))
  await until('all have failed', async () => (await queue.getFailedCount()) === 3)
  expect(seen.runs).toEqual([])
  await lease.release()
})

test('a flow: children of one customer run one at a time, and their parent after them', async () => {
  const flows = new FlowProducer({ connection: connection() })
  fixture.defer(() => flows.close())
  const seen = await startWorkers(2, {}, 15)
  const queueName = fixture.namespace
  const child = (nr: number) => ({ name: 'part', queueName, data: { customer: 'a', nr } })
  const { job } = await flows.add({
    name: 'whole',
    queueName,
    data: { customer: 'a', nr: 99 },
    children: [child(1), child(2), child(3), child(4)],
  })
  await until('the parent is done', async () => (await job.getState()) === 'completed')
  expect(seen.runs).toHaveLength(5)
  expect(seen.runs.at(-1)).toBe(99)
  expect(seen.most).toBe(1)
})

test('a scheduler: its jobs wait for their turn and none is lost or doubled', async () => {
  const queue = makeQueue()
  const seen = await startWorkers(2, {}, 80)
  await queue.upsertJobScheduler('hourly', { every: 50 }, { data: { customer: 'a', nr: 1 } })
  await until('some ran', () => seen.runs.length >= 5)
  await queue.removeJobScheduler('hourly')
  await until('nothing is left', async () => (await queue.count()) === 0)
  expect(seen.most).toBe(1)
  expect(await queue.getFailedCount()).toBe(0)
})

test('a scheduler goes on after jobs that fail before they start', async () => {
  const queue = makeQueue()
  const redlock = await fixture.redlock()
  const seen: (string | undefined)[] = []
  const worker = new LockedWorker<Charge>(fixture.namespace, () => Promise.resolve(), {
    ...{ connection: connection(), redlock, autorun: false },
    resource: () => {
      throw new Error('it has none')
    },
  })
  fixture.defer(() => worker.close())
  worker.on('failed', (job) => seen.push(job?.failedReason))
  const first = await queue.upsertJobScheduler(
    'often',
    { every: 50 },
    { data: { customer: 'a', nr: 1 } },
  )
  const client = new Redis(connection())
  fixture.defer(() => client.quit())
  await client.hset(queue.toKey(first.id ?? ''), 'defa', 'its child failed')
  void worker.run()
  await until('three have failed', () => seen.length >= 3)
  expect(seen[0]).toBe('its child failed')
  expect(seen[1]).toContain('it has none')
})

test('a scheduler that is faster than its jobs adds no more in a plain worker than without us', async () => {
  const queue = new Queue(fixture.namespace, { connection: connection() })
  fixture.defer(() => queue.close())
  let runs = 0
  const options = { resource: () => 'customer:a', logger: silentLogger }
  const processor = lockedProcessor(await fixture.redlock(), options, async () => {
    await pause(300)
    runs++
  })
  const worker = new Worker(fixture.namespace, processor, {
    ...{ connection: connection(), concurrency: 2 },
  })
  fixture.defer(() => worker.close())
  await queue.upsertJobScheduler('often', { every: 50 }, { name: 'tick', data: {} })
  await until('some ran', () => runs >= 5)
  const { waiting = 0, active = 0, delayed = 0 } = await queue.getJobCounts()
  await queue.removeJobScheduler('often')
  expect(waiting + active + delayed).toBeLessThanOrEqual(4)
})
