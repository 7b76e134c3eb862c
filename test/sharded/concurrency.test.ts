/** `concurrency` of a sharded worker: the total of a process, which follows the work. */
import { setTimeout as pause } from 'node:timers/promises'
import { Worker } from 'bullmq'
import { expect, test, vi } from 'vitest'
import {
  batchProcessor,
  type LeasedProcessor,
  type LockedWorker,
  type ShardedWorker,
  type ShardedWorkerOptions,
} from '../../src/index.ts'
import { LineBackend } from '../../src/line/line-backend.ts'
import { aborted, until } from '../fixtures.ts'
import { resourceOf, shardOfCustomer, type Charge } from './charge.ts'
import { useShards } from './cluster.ts'

const fixture = useShards()
/** Of each shard. */
const NAMES = [0, 1, 2, 3].map((shard) =>
  Array.from({ length: 400 }, (_, nr) => `r${nr}`).filter(
    (name) => shardOfCustomer(name) === shard,
  ),
)

const makeWorker = (
  concurrency: number,
  processor: LeasedProcessor<Charge, unknown>,
  options: Partial<ShardedWorkerOptions<Charge>> = {},
): Promise<ShardedWorker<Charge>> => fixture.worker(processor, { concurrency, ...options })

/** Of a customer each, of one shard. */
const jobsOf = (shard: number, count: number): { name: string; data: Charge }[] =>
  (NAMES[shard] ?? [])
    .slice(0, count)
    .map((customer, nr) => ({ name: 'charge', data: { customer, nr } }))

test.each([1, 2, 5, 12])('%i run at once over all shards, never more', async (concurrency) => {
  const queue = fixture.queue()
  let [now, most, done] = [0, 0, 0]
  await queue.addBulk([0, 1, 2, 3].flatMap((shard) => jobsOf(shard, 30)))
  await makeWorker(concurrency, async () => {
    most = Math.max(most, ++now)
    await pause(5)
    now--
    done++
  })
  await until('all are done', () => done === 120)
  expect(most).toBe(concurrency)
})

test('a shard with all the work has all of it', async () => {
  const queue = fixture.queue()
  const gate = fixture.gate()
  let now = 0
  await makeWorker(12, async () => {
    now++
    await gate.passed
    now--
  })
  await queue.addBulk(jobsOf(2, 30))
  await until('twelve run', () => now === 12)
  await pause(100)
  expect(now).toBe(12)
  // Those of another shard are next, up to its share.
  gate.open()
  await until('all are done', async () => (await queue.getCompletedCount()) === 30)
})

test('a shard that gets work is given its share of a busy process', async () => {
  const queue = fixture.queue()
  const now = [0, 0, 0, 0]
  let isOver = false
  const run = async ({ data: { customer, nr } }: { readonly data: Charge }): Promise<void> => {
    const shard = shardOfCustomer(customer)
    now[shard] = (now[shard] ?? 0) + 1
    await pause(isOver ? 0 : 12 + 3 * nr) // So that no two end together.
    now[shard] = (now[shard] ?? 0) - 1
  }
  // A job whose burst is spent gives its permit back.
  await makeWorker(8, run, { burstMs: 60_000 })
  // Each job is followed by the next one of its line, which keeps the permit.
  const linesOf = (shard: number, jobs: number) =>
    Array.from({ length: jobs }, () => jobsOf(shard, 8)).flat()
  await queue.addBulk(linesOf(0, 150))
  await until('one shard has all', () => now[0] === 8)
  await queue.addBulk(linesOf(3, 50))
  await until('both have four', () => now[0] === 4 && now[3] === 4, 2_000)
  isOver = true
  await until('all are done', async () => (await queue.getCompletedCount()) === 1_600)
})

test('a shard that waits takes one permit of all that end at once', async () => {
  const queue = fixture.queue()
  const [first, rest] = [fixture.gate(), fixture.gate()]
  const running = new Map<string, number>()
  const run = async ({ data: { customer, nr } }: { readonly data: Charge }): Promise<void> => {
    running.set(customer, nr)
    await (nr < 8 ? first : rest).passed
  }
  // A job whose burst is spent would leave its line to the others.
  await makeWorker(8, run, { burstMs: 60_000 })
  await queue.addBulk(jobsOf(0, 8))
  await queue.addBulk(
    jobsOf(0, 8).map((job, nr) => ({ ...job, data: { ...job.data, nr: 8 + nr } })),
  )
  await until('one shard has all', () => running.size === 8)
  await queue.addBulk(jobsOf(3, 1).map((job) => ({ ...job, data: { ...job.data, nr: 8 } })))
  await pause(200) // That shard waits for a permit.
  const fetch = vi.spyOn(Worker.prototype as unknown as { moveToActive(): unknown }, 'moveToActive')
  first.open()
  await until('eight others run', () => [...running.values()].filter((nr) => nr >= 8).length === 8)
  // The seven others were followed by a job of their line, in the call that ended them.
  expect(fetch.mock.calls.length).toBeLessThan(4)
  rest.open()
  await until('all are done', async () => (await queue.getCompletedCount()) === 17)
})

test('a shard goes on from job to job while all permits are taken', async () => {
  const queue = fixture.queue()
  const gate = fixture.gate()
  let done = 0
  await makeWorker(2, async ({ data: { customer } }) => {
    if (shardOfCustomer(customer) === 0) await gate.passed
    done++
  })
  await queue.addBulk([...jobsOf(0, 1), ...jobsOf(3, 20)])
  await until('all but the first are done', () => done === 20)
  gate.open()
  await until('all are done', () => done === 21)
})

test('with one permit, no backlog keeps other shards waiting', async () => {
  const queue = fixture.queue()
  const order: number[] = []
  await makeWorker(1, async ({ data: { customer } }) => {
    order.push(shardOfCustomer(customer))
    await pause(5)
  })
  await queue.addBulk([...jobsOf(0, 90), ...jobsOf(0, 90), ...jobsOf(0, 90)])
  await until('the backlog runs', () => order.length > 3)
  const before = order.length
  await queue.addBulk([1, 2, 3].flatMap((shard) => jobsOf(shard, 1)))
  await until('the others ran', () => [1, 2, 3].every((shard) => order.includes(shard)))
  expect(order.length - before).toBeLessThan(120)
})

test('a process that is full leaves a job to one that is not', () =>
  fixture.undisturbed(async () => {
    const queue = fixture.queue()
    const gate = fixture.gate()
    let full = 0
    await makeWorker(2, async () => {
      full++
      await gate.passed
    })
    await queue.addBulk(jobsOf(0, 2))
    await until('one is full', () => full === 2)
    const ran: string[] = []
    await makeWorker(2, ({ data: { customer } }) => Promise.resolve(ran.push(customer)))
    await pause(300) // All its shards wait for a mark.
    for (const [index, shard] of [1, 2, 3, 1, 2, 3, 1, 2, 3].entries()) {
      const startedAt = performance.now()
      await queue.add('charge', { customer: NAMES[shard]?.[index] ?? '', nr: 0 })
      await until('the other ran it', () => ran.length === index + 1)
      // BullMQ looks without a mark after five seconds.
      expect(performance.now() - startedAt).toBeLessThan(2_500)
    }
    expect(full).toBe(2)
  }))

test('a permit that comes free while a mark is put back is given to its shard', async () => {
  const queue = fixture.queue()
  const gate = fixture.gate()
  const ran: number[] = []
  const worker = await makeWorker(1, async ({ data: { customer } }) => {
    const shard = shardOfCustomer(customer)
    if (shard === 0) await gate.passed
    ran.push(shard)
  })
  const [first, second, third, last] = worker.shards as readonly LockedWorker[]
  // Private in BullMQ's types.
  const loops = worker.shards as unknown as readonly { readonly waiting: unknown }[]
  await until('all wait for a mark', () => loops.every(({ waiting }) => waiting !== null))
  await queue.addBulk(jobsOf(0, 1))
  await until('the permit is taken', async () => (await queue.getActiveCount()) === 1)
  // No other shard takes a permit any more, and gives it back.
  await Promise.all([first?.pause(true), second?.close(), third?.close()])
  const lines = LineBackend.of(last as LockedWorker)
  const wakeWorker = lines.wakeWorker.bind(lines)
  const spy = vi.spyOn(lines, 'wakeWorker').mockImplementationOnce(async () => {
    gate.open()
    await until('the permit is free', async () => (await queue.getCompletedCount()) === 1)
    await pause(50)
    await wakeWorker()
  })
  await queue.addBulk(jobsOf(3, 1))
  await until('its job runs', () => ran.length === 2, 10_000)
  expect(ran).toEqual([0, 3])
  expect(spy).toHaveBeenCalledOnce()
})

test('it changes while it works', async () => {
  const queue = fixture.queue()
  let [now, done] = [0, 0]
  const worker = await makeWorker(2, async () => {
    now++
    await pause(10)
    now--
    done++
  })
  await queue.addBulk([0, 1, 2, 3].flatMap((shard) => jobsOf(shard, 80)))
  await until('two run', () => now === 2)
  worker.concurrency = 10
  expect(worker.concurrency).toBe(10)
  await until('ten run', () => now === 10)
  worker.concurrency = 3
  await until('three run', () => now === 3)
  await pause(100)
  expect(now).toBeLessThanOrEqual(3)
  expect(() => (worker.concurrency = 0)).toThrow(/concurrency/)
  await until('all are done', () => done === 320)
})

test('failing, requeued and batched jobs give their permits back', async () => {
  const queue = fixture.queue()
  let [now, most, runs] = [0, 0, 0]
  const run = async (nr: number): Promise<void> => {
    most = Math.max(most, ++now)
    await pause(2)
    now--
    runs++
    if (nr % 3 === 0) throw new Error('no')
  }
  const redlock = await fixture.redlock()
  const held = await redlock.acquire(resourceOf({ customer: NAMES[1]?.[1] ?? '' }), {
    autoExtend: true,
  })
  const worker = await makeWorker(3, (job) => run(job.data.nr), { redlock, burstMs: 0 })
  await queue.addBulk([0, 1, 2, 3].flatMap((shard) => [...jobsOf(shard, 20), ...jobsOf(shard, 20)]))
  await until('all but two ended', () => runs === 158)
  await held.release()
  await until('all ended', () => runs === 160)
  expect(most).toBe(3)
  await worker.close()

  let batches = 0
  await makeWorker(
    2,
    batchProcessor<Charge>({ size: 5 }, async (jobs) => {
      most = Math.max(most, ++now)
      await pause(2)
      now--
      batches++
      runs += jobs.length
      return jobs.map(() => ({ status: 'fulfilled', value: undefined }))
    }),
  )
  await queue.addBulk(
    [0, 1, 2, 3].flatMap((shard) => Array.from({ length: 5 }, () => jobsOf(shard, 5)).flat()),
  )
  await until('all are done', () => runs === 260)
  expect(batches).toBeLessThan(60)
  expect(most).toBe(3)
})

test('pause, resume, drain and close end the wait for a permit', async () => {
  const queue = fixture.queue()
  const gate = fixture.gate()
  const told: string[] = []
  let now = 0
  const worker = await makeWorker(1, async () => {
    now++
    await gate.passed
  })
  for (const event of ['paused', 'resumed', 'closing', 'closed'] as const) {
    worker.on(event, () => told.push(event))
  }
  await queue.addBulk([0, 1, 2, 3].flatMap((shard) => jobsOf(shard, 2)))
  await until('one runs', () => now === 1)
  await worker.pause(true)
  expect(worker.isPaused()).toBe(true)
  await worker.resume()
  expect(worker.isPaused()).toBe(false)
  gate.open()
  await until('all ran', () => now === 8)
  const other = await makeWorker(1, async (_, lease) => {
    await aborted(lease.signal)
    throw lease.signal.reason
  })
  await worker.close()
  expect(told).toEqual(['paused', 'resumed', 'closing', 'closed'])
  await queue.addBulk([0, 1, 2, 3].flatMap((shard) => jobsOf(shard, 2)))
  await until('one runs', async () => (await queue.getActiveCount()) > 0)
  await pause(100)
  expect(await other.drain({ timeoutMs: 100 })).toBe(true)
  expect([await queue.getActiveCount(), await queue.count()]).toEqual([0, 8])
  expect(other.isRunning()).toBe(false)
})

test('one that is closed before it has begun tells no error', async () => {
  const told: unknown[] = []
  for (let nr = 0; nr < 5; nr++) {
    const worker = await makeWorker(1, () => Promise.resolve())
    worker.on('error', (error) => told.push(error))
    await pause(nr)
    await worker.close()
  }
  await pause(100)
  expect(told).toEqual([])
})

test('a lock service for each shard', async () => {
  const queue = fixture.queue()
  const redlock = await Promise.all(
    [0, 1, 2, 3].map((shard) => fixture.redlock({ namespace: `${fixture.namespace}-${shard}` })),
  )
  const ran: string[] = []
  await makeWorker(4, ({ data: { customer } }) => Promise.resolve(ran.push(customer)), { redlock })
  const held = await redlock[3]?.acquire(resourceOf({ customer: NAMES[3]?.[0] ?? '' }), {
    autoExtend: true,
  })
  await queue.addBulk([0, 1, 2, 3].flatMap((shard) => jobsOf(shard, 1)))
  await until('three ran', () => ran.length === 3)
  await pause(200)
  expect(ran).not.toContain(NAMES[3]?.[0])
  await held?.release()
  await until('it ran', () => ran.length === 4)
})

test('drain says that the processor of one shard ignored its signal', async () => {
  const queue = fixture.queue()
  const gate = fixture.gate()
  let started = false
  const worker = await makeWorker(4, () => {
    started = true
    return gate.passed
  })
  await queue.addBulk(jobsOf(2, 1))
  await until('it runs', () => started)
  expect(await worker.drain({ timeoutMs: 0 })).toBe(false)
})
