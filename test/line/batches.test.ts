/** Several jobs of a resource under one lease: in order, each with its own end. */
import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import { DelayedError, WaitingChildrenError, WaitingError, type Job } from 'bullmq'
import { describe, expect, test } from 'vitest'
import {
  batchProcessor,
  JobLockLostError,
  listen,
  type Listener,
  type BatchOptions,
  type BatchRun,
  type LockedWorker,
  type LockedWorkerOptions,
} from '../../src/index.ts'
import { aborted, until, useFleet } from '../fixtures.ts'
import { lockedJobs } from '../support/locked-jobs.ts'
import { startProxy, type Hold } from '../support/proxy.ts'
import { upTo } from './calls.ts'

interface Charge {
  readonly customer: string
  readonly nr: number
}

const fixture = useFleet({ masters: 3 })
const { makeQueue, work: workOn } = lockedJobs<Charge>(
  fixture,
  ({ customer }) => `customer:${customer}`,
  { concurrency: 4 },
)
const work = async (
  batch: BatchOptions,
  run: BatchRun<Charge, unknown>,
  options?: Partial<LockedWorkerOptions<Charge>>,
): Promise<LockedWorker<Charge>> => workOn(batchProcessor(batch, run), options)

const jobs = (
  count: number,
  customer = 'a',
  opts = {},
): { name: string; data: Charge; opts: object }[] =>
  Array.from({ length: count }, (_, nr) => ({ name: 'charge', data: { customer, nr }, opts }))
const numbers = (batch: readonly Job<Charge>[]): number[] => batch.map(({ data: { nr } }) => nr)
const allDone = (batch: readonly Job<Charge>[]): Promise<PromiseSettledResult<unknown>[]> =>
  Promise.allSettled(batch.map(({ data: { nr } }) => Promise.resolve(nr * 10)))

/** Those that are declined fail, and the others have their numbers. */
const allButDeclined = (
  batch: readonly Job<Charge>[],
  isDeclined: (job: Job<Charge>) => boolean,
): Promise<PromiseSettledResult<unknown>[]> =>
  Promise.allSettled(
    batch.map((job) =>
      isDeclined(job) ? Promise.reject(new Error('declined')) : Promise.resolve(job.data.nr),
    ),
  )

/** A processor, and the numbers of the jobs that each call had. */
function recording(process: BatchRun<Charge, unknown> = allDone) {
  const seen: number[][] = []
  const run: BatchRun<Charge, unknown> = (batch, lease) => {
    seen.push(numbers(batch))
    return process(batch, lease)
  }
  return { seen, run }
}

async function moveToChildren(job: Job, token: string): Promise<unknown> {
  const queue = fixture.plainQueue()
  const parent = { id: job.id ?? '', queue: job.queueQualifiedName }
  await queue.add('child', { customer: 'b', nr: 0 }, { parent, delay: 60_000 })
  return job.moveToWaitingChildren(token)
}

describe('a batch', () => {
  test.each<[how: string, move: (job: Job, token: string) => Promise<unknown>, error: Error]>([
    ['delays', (job, token) => job.moveToDelayed(Date.now(), token), new DelayedError()],
    ['puts back', (job, token) => job.moveToWait(token), new WaitingError()],
    ['moves to its children', moveToChildren, new WaitingChildrenError()],
  ])('goes on without a job that the processor %s', async (_how, move, moved) => {
    const queue = makeQueue()
    const errors: unknown[] = []
    const lost: unknown[] = []
    const gate = fixture.gate()
    let runs = 0
    const worker = await work(
      { size: 2 },
      async (batch, lease) => {
        runs += 1
        const [first] = batch
        if (runs > 1 || first === undefined) return allDone(batch)
        await move(first, String(lease))
        await gate.passed
        lease.signal.throwIfAborted()
        return Promise.allSettled([Promise.reject(moved), Promise.resolve(10)])
      },
      { lockDuration: 500, lockRenewTime: 100, concurrency: 1 },
    )
    worker.on('error', (error) => errors.push(error))
    worker.on('lockRenewalFailed', (ids) => lost.push(ids))
    const [, second] = await queue.addBulk(jobs(2))
    await until('it runs', () => runs === 1)
    await once(worker, 'locksRenewed')
    await once(worker, 'locksRenewed')
    gate.open()
    await until('the second is done', async () => (await second?.isCompleted()) === true)
    expect([errors, lost, (await queue.getJob(second?.id ?? ''))?.attemptsMade]).toEqual([
      [],
      [],
      1,
    ])
  })

  test('comes to an idle worker from one with more lines, and then lines stay where they run', async () => {
    const queue = makeQueue()
    const lines = ['a', 'b', 'c']
    for (const line of lines) await queue.addBulk(jobs(1_000, line))
    const ranBy = new Map<string, number>()
    let changes = 0
    let done = 0
    const workAs = (own: number): Promise<LockedWorker<Charge>> =>
      work(
        { size: 5 },
        async (batch) => {
          const line = batch[0]?.data.customer ?? ''
          if (ranBy.get(line) !== own) changes++
          ranBy.set(line, own)
          await delay(10)
          done += batch.length
          return allDone(batch)
        },
        { burstMs: 20, autorun: false },
      )
    const [first, second] = [await workAs(1), await workAs(2)]
    void first.run()
    await until('one worker runs all lines', () => ranBy.size === lines.length)
    void second.run()
    await until('both run lines, and none changes its worker any more', async () => {
      const before = changes
      await delay(200)
      return changes === before && new Set(ranBy.values()).size === 2
    })
    expect(done).toBeLessThan(3_000)
  })

  test('has the next jobs of its line, in order, under one token', async () => {
    const queue = makeQueue()
    const seen: number[][] = []
    const tokens: number[] = []
    await queue.addBulk(jobs(25))
    await work({ size: 10 }, (batch, lease) => {
      seen.push(numbers(batch))
      tokens.push(lease.fencingToken)
      return allDone(batch)
    })
    await until('all are done', async () => (await queue.getCompletedCount()) === 25)
    expect(seen.map(({ length }) => length)).toEqual([10, 10, 5])
    expect(seen.flat()).toEqual(upTo(25))
    expect([...tokens].sort((a, b) => a - b)).toEqual(tokens)
    const plain = fixture.plainQueue<Charge>()
    for (const { data, returnvalue, attemptsMade, delay } of await plain.getCompleted()) {
      expect([returnvalue, attemptsMade, delay]).toEqual([data.nr * 10, 1, 0])
    }
    expect(await queue.getJobCounts('active', 'wait', 'delayed', 'failed')).toEqual({
      ...{ active: 0, wait: 0, delayed: 0, failed: 0 },
    })
    const redis = fixture.redis()
    expect(await redis.keys(`bull:${fixture.namespace}:redlock:::line:*`)).toEqual([])
    expect(await redis.keys(`bull:${fixture.namespace}:*:lock`)).toEqual([])
  })

  test('fails job by job; a retried one keeps its place before those behind it', async () => {
    const queue = makeQueue()
    const events: string[] = []
    await queue.addBulk(jobs(8, 'a', { attempts: 2 }))
    const { seen, run } = recording((batch) =>
      allButDeclined(batch, ({ data, attemptsMade }) => data.nr === 2 && attemptsMade === 0),
    )
    const worker = await work({ size: 4 }, run)
    worker.on('completed', ({ data }) => events.push(`completed ${data.nr}`))
    worker.on('failed', (job) => events.push(`failed ${job?.data.nr}`))
    await until('all are done', () => events.length === 9)
    expect(seen[0]).toEqual([0, 1, 2, 3])
    expect(seen[1]?.[0]).toBe(2)
    expect(seen.flat().filter((nr) => nr !== 2)).toEqual([0, 1, 3, 4, 5, 6, 7])
    expect(events.filter((event) => event === 'failed 2')).toHaveLength(1)
  })

  test('fails all of its jobs if the processor throws', async () => {
    const queue = makeQueue()
    await queue.addBulk(jobs(3))
    await work({ size: 3 }, () => Promise.reject(new Error('the bank is away')))
    await until('all have failed', async () => (await queue.getFailedCount()) === 3)
    const reasons = (await queue.getFailed()).map(({ failedReason }) => failedReason)
    expect(new Set(reasons)).toEqual(new Set(['the bank is away']))
    const next = await queue.add('charge', { customer: 'a', nr: 3 })
    await until('the line goes on', async () => (await next.getState()) === 'failed')
  })

  test('fails all of its jobs if the processor omits some', async () => {
    const queue = makeQueue()
    await queue.addBulk(jobs(2))
    await work({ size: 2 }, () => Promise.resolve([{ status: 'fulfilled', value: 1 }]))
    await until('both have failed', async () => (await queue.getFailedCount()) === 2)
    expect((await queue.getFailed())[0]?.failedReason).toContain('must return 2 outcomes')
  })

  test('that is not full waits for more jobs', async () => {
    const queue = makeQueue()
    const { seen, run } = recording()
    await work({ size: 4, waitMs: 10_000 }, run)
    for (const { name, data } of jobs(4)) {
      await queue.add(name, data)
      const isTaken = async (): Promise<boolean> => (await queue.getWaitingCount()) === 0
      await until('it is taken', isTaken)
    }
    await until('all are done', async () => (await queue.getCompletedCount()) === 4)
    expect(seen).toEqual([[0, 1, 2, 3]])
  })

  test('leaves jobs of other resources alone, and several workers take turns', async () => {
    const queue = makeQueue()
    const running = new Map<string, number>()
    let most = 0
    const order = new Map<string, number[]>()
    const run: BatchRun<Charge, unknown> = async (batch) => {
      const customers = new Set(batch.map(({ data: { customer } }) => customer))
      expect(customers.size).toBe(1)
      const [customer = ''] = customers
      running.set(customer, (running.get(customer) ?? 0) + 1)
      most = Math.max(most, running.get(customer) ?? 0)
      await delay(5)
      order.set(customer, [...(order.get(customer) ?? []), ...numbers(batch)])
      running.set(customer, (running.get(customer) ?? 0) - 1)
      return allDone(batch)
    }
    await work({ size: 5 }, run)
    await work({ size: 5 }, run)
    await Promise.all(['a', 'b', 'c'].map((customer) => queue.addBulk(jobs(40, customer))))
    await until('all are done', async () => (await queue.getCompletedCount()) === 120)
    expect(most).toBe(1)
    for (const each of order.values()) {
      expect(each).toEqual(upTo(40))
    }
  })

  test('has no job of a plain queue, and none of a resource that was paused', async () => {
    const queue = makeQueue()
    const plain = fixture.plainQueue<Charge>()
    await plain.addBulk(jobs(2, 'b'))
    await queue.addBulk(jobs(4))
    let isPaused = false
    await work({ size: 2 }, async (batch) => {
      if (!isPaused && batch[0]?.data.customer === 'a') {
        isPaused = true
        await queue.pauseResource('customer:a')
      }
      return allDone(batch)
    })
    await until('four are done', async () => (await queue.getCompletedCount()) === 4)
    await delay(300)
    expect(await queue.getCompletedCount()).toBe(4)
    await queue.resumeResource('customer:a')
    await until('all are done', async () => (await queue.getCompletedCount()) === 6)
  })

  test('ends before a job that is delayed, and before one of several resources', async () => {
    const queue = makeQueue({ resource: ({ customer }) => customer.split('+') })
    const opts = [{ attempts: 2 }, { attempts: 2, backoff: 800 }]
    for (const [nr, customer] of ['a', 'a', 'a', 'a+b', 'a'].entries()) {
      await queue.add('charge', { customer, nr }, opts[nr] ?? {})
    }
    const { seen, run } = recording((batch) =>
      allButDeclined(batch, ({ data, attemptsMade }) => data.nr < 2 && attemptsMade === 0),
    )
    await work({ size: 10 }, run, { resource: ({ data }) => data.customer.split('+') })
    await until('all are done', async () => (await queue.getCompletedCount()) === 5)
    expect(seen).toEqual([[0, 1, 2], [0], [1], [3], [4]])
  })

  test('has no job that was added while its resource was paused', async () => {
    const queue = makeQueue()
    const { seen, run } = recording()
    await queue.addBulk(jobs(1))
    await work({ size: 10, waitMs: 1_000 }, run)
    await until('it waits for more', async () => (await queue.getActiveCount()) === 1)
    await queue.pauseResource('customer:a')
    await queue.add('charge', { customer: 'a', nr: 1 })
    await until('it is done', async () => (await queue.getCompletedCount()) === 1)
    expect(seen).toEqual([[0]])
    await queue.resumeResource('customer:a')
    await until('both are done', async () => (await queue.getCompletedCount()) === 2)
  })

  test('has no more starts than its rate admits', async () => {
    const queue = makeQueue({ rate: () => ({ limit: 1, perMs: 60_000, burst: 3 }) })
    const { seen, run } = recording()
    await queue.addBulk(jobs(5))
    await work({ size: 10 }, run)
    await until('three are done', async () => (await queue.getCompletedCount()) === 3)
    await delay(300)
    expect(seen.flat()).toEqual([0, 1, 2])
  })

  test('continues when one of its jobs is cancelled, which then fails', async () => {
    const queue = makeQueue()
    await queue.addBulk(jobs(3, 'a', { attempts: 5 }))
    const ends: AbortSignal[] = []
    const wait = fixture.gate()
    await work({ size: 3 }, async (batch, lease) => {
      ends.push(lease.signal)
      await wait.passed
      return allButDeclined(batch, ({ data }) => data.nr === 1)
    })
    await until('it runs', () => ends.length === 1)
    const second = (await queue.getActive()).find(({ data }) => data.nr === 1)
    const cancelling = queue.cancel(second?.id ?? '', { reason: 'left' })
    await delay(1_500)
    wait.open()
    await cancelling
    await until('all have ended', async () => (await queue.getCompletedCount()) === 2)
    expect(ends[0]?.aborted).toBe(false)
    const [failed] = await queue.getFailed()
    expect(failed?.failedReason).toContain('left')
    expect(failed?.attemptsMade).toBe(1)
  })

  test('leaves a job that has moved itself, also when it was cancelled before', async () => {
    const queue = makeQueue()
    await queue.addBulk(jobs(2))
    const wait = fixture.gate()
    let runs = 0
    const errors: string[] = []
    const worker = await work({ size: 2 }, async ([first, second]) => {
      runs++
      await wait.passed
      await second?.moveToDelayed(Date.now() + 60_000, second.token)
      await delay(1_200) // Meanwhile the worker has read the request to cancel it.
      return Promise.allSettled([
        Promise.resolve(first?.data.nr),
        Promise.reject(new DelayedError()),
      ])
    })
    worker.on('error', ({ message }) => errors.push(message))
    await until('it runs', () => runs === 1)
    const second = (await queue.getActive()).find(({ data }) => data.nr === 1)
    const [asked] = await queue.cancel(second?.id ?? '', { timeoutMs: 0 })
    expect(asked?.outcome).toBe('running')
    wait.open()
    await until('the batch has ended', async () => (await queue.getCompletedCount()) === 1)
    await delay(100)
    expect(errors).toEqual([])
    expect(await queue.getDelayedCount()).toBe(1)
    const [cancelled] = await queue.cancel(second?.id ?? '')
    expect(cancelled?.outcome).toBe('failed')
  })

  test('leaves a job that has moved itself, also when a forgotten step fails the others', async () => {
    const queue = makeQueue()
    await queue.addBulk(jobs(2))
    const errors: string[] = []
    const worker = await work({ size: 2 }, async ([first, second], lease) => {
      await second?.moveToDelayed(Date.now() + 60_000, second.token)
      lease.step('forgotten', () => delay(50)).catch(() => undefined)
      return Promise.allSettled([
        Promise.resolve(first?.data.nr),
        Promise.reject(new DelayedError()),
      ])
    })
    worker.on('error', ({ message }) => errors.push(message))
    await until('the first has failed', async () => (await queue.getFailedCount()) === 1)
    await delay(100)
    expect(errors).toEqual([])
    expect(await queue.getDelayedCount()).toBe(1)
  })

  test('is requeued by drain, in order and without an attempt', async () => {
    const queue = makeQueue()
    await queue.addBulk(jobs(6))
    let isRunning = false
    const worker = await work({ size: 3 }, async (_batch, lease) => {
      isRunning = true
      throw (await aborted(lease.signal)) as Error
    })
    await until('it runs', () => isRunning)
    await worker.drain({ timeoutMs: 50 })
    expect(await queue.getJobCounts('active', 'failed')).toEqual({ active: 0, failed: 0 })
    const order: number[] = []
    await work({ size: 3 }, (batch) => {
      order.push(...numbers(batch))
      expect(batch.every(({ attemptsMade }) => attemptsMade === 0)).toBe(true)
      return allDone(batch)
    })
    await until('all are done', async () => (await queue.getCompletedCount()) === 6)
    expect(order).toEqual([0, 1, 2, 3, 4, 5])
  })

  test.each(['drain', 'close', 'pause'] as const)('takes no more jobs after %s', async (how) => {
    const queue = makeQueue()
    const { seen, run } = recording()
    const worker = await work({ size: 10, waitMs: 20_000 }, run)
    await queue.addBulk(jobs(2))
    await until('both are taken', async () => (await queue.getActiveCount()) === 2)
    const leaving = worker[how]()
    await queue.addBulk(jobs(3))
    await leaving
    expect(seen).toEqual([[0, 1]])
    expect(await queue.getWaitingCount()).toBe(3)
  })

  test('goes on without its first job, which was cancelled before it began', async () => {
    const { seen, run } = recording()
    const worker = await work({ size: 10 }, run)
    const failures: unknown[] = []
    worker.on('failed', (job, { message }) => failures.push([job?.data.nr, message]))
    await worker.waitUntilReady()
    const { masters } = fixture.fleet
    await Promise.all(masters.map((master) => master.freeze()))
    const queue = makeQueue()
    await queue.addBulk(jobs(4))
    await until('the first asks for its lease', async () => (await queue.getActiveCount()) === 1)
    const [first] = await queue.getActive()
    expect(worker.cancelJob(first?.id ?? '', 'customer left')).toBe(true)
    await Promise.all(masters.map((master) => master.thaw()))
    await until('the others are done', async () => (await queue.getCompletedCount()) === 3)
    expect(seen).toEqual([[1, 2, 3]])
    expect(failures).toEqual([[0, expect.stringContaining('customer left')]])
  })

  describe('whose question for other jobs is on its way', () => {
    /** The queue's server has not heard it yet. */
    async function asking(leaseMs: number) {
      const queue = makeQueue()
      await queue.addBulk(jobs(4))
      const { host, port } = fixture.connection
      const proxy = await startProxy(port)
      fixture.defer(() => proxy.close())
      let hold: Hold | undefined
      const leases: unknown[] = []
      const on: Listener['on'] = {
        'batch:started': () => {
          hold ??= proxy.holdRequests()
        },
        'job:started': ({ lease }) => void leases.push(lease),
      }
      fixture.defer(listen({ on }))
      const { seen, run } = recording()
      const worker = await work({ size: 10 }, run, {
        redlock: await fixture.redlock({ leaseMs }),
        connection: { host, port: proxy.port },
        ...{ lockDuration: 600, stalledInterval: 300 },
      })
      const failures: string[] = []
      worker.on('failed', (_job, { message }) => failures.push(message))
      await until('it asks', () => hold !== undefined)
      return { queue, worker, seen, failures, leases, arrive: () => hold?.release() }
    }

    test.each([
      ['its lock', 6_000],
      ['its lock and its lease', 500],
    ])('starts none of them where its first job loses %s', async (_, leaseMs) => {
      const { queue, seen, failures, leases, arrive } = await asking(leaseMs)
      const lost = leaseMs < 600 ? fixture.fleet.masters : []
      await Promise.all(lost.map((master) => master.freeze()))
      await delay(2_000)
      await Promise.all(lost.map((master) => master.thaw()))
      arrive()
      await until('all are done', async () => (await queue.getCompletedCount()) === 4)
      expect(seen.flat().sort()).toEqual([0, 1, 2, 3])
      expect(failures).toEqual([])
      expect(leases).not.toContain(undefined)
    })

    test('does not begin where its worker stops its jobs', async () => {
      const { queue, worker, seen, arrive } = await asking(6_000)
      const drained = worker.drain({ timeoutMs: 0 })
      await delay(500)
      arrive()
      await drained
      expect(seen).toEqual([])
      expect(await queue.getJobCountByTypes('delayed', 'waiting')).toBe(4)
    })
  })

  test('that cannot begin returns its jobs to their places', async () => {
    await fixture.undisturbed(async () => {
      const queue = makeQueue()
      await queue.addBulk(jobs(9))
      const seen: number[][] = []
      const away = fixture.fleet.masters.slice(0, 2)
      fixture.defer(() => Promise.all(away.map((master) => master.thaw())))
      const run: BatchRun<Charge, unknown> = async (batch, lease) => {
        seen.push(numbers(batch))
        if (seen.length === 1) {
          await Promise.all(away.map((master) => master.freeze()))
          // Too little is left for the next batch, which has to ask the masters.
          await until('the lease is old', () => lease.remainingMs() < 900)
        }
        return allDone(batch)
      }
      const redlock = await fixture.redlock({ leaseMs: 2_000 })
      const worker = await work({ size: 3 }, run, { redlock })
      const stalled: string[] = []
      worker.on('stalled', (jobId) => stalled.push(jobId))
      await once(worker, 'requeued')
      await until('the rest sleeps', async () => (await queue.getActiveCount()) === 0)
      expect(await queue.getCompletedCount()).toBe(3)
      await Promise.all(away.map((master) => master.thaw()))
      await until('all are done', async () => (await queue.getCompletedCount()) === 9)
      expect(seen.flat()).toEqual(upTo(9))
      expect(stalled).toEqual([])
      const done = await queue.getCompleted()
      expect(done.map(({ attemptsMade }) => attemptsMade)).toEqual(Array(9).fill(1))
    })
  })

  test('takes no job behind one that another worker may get', async () => {
    const queue = makeQueue()
    await queue.addBulk([...jobs(12, 'a'), ...jobs(12, 'b')])
    const { seen, run } = recording(async (batch) => {
      await delay(5)
      return allDone(batch)
    })
    // After each batch, its line goes behind the other one.
    const worker = await work({ size: 4 }, run, { burstMs: 1, concurrency: 1 })
    const stalled: string[] = []
    worker.on('stalled', (jobId) => stalled.push(jobId))
    await until('all are done', async () => (await queue.getCompletedCount()) === 24)
    expect(stalled).toEqual([])
    expect(seen.map(({ length }) => length)).toEqual([4, 4, 4, 4, 4, 4])
  })

  test('sleeps as a whole after a rate limit, and its jobs have waited once', async () => {
    const queue = makeQueue()
    const waits: (number | undefined)[] = []
    fixture.defer(listen({ on: { 'job:started': ({ waitedMs }) => void waits.push(waitedMs) } }))
    await queue.addBulk(jobs(3))
    const starts: number[][] = []
    const run: BatchRun<Charge, unknown> = async (batch, lease) => {
      starts.push(numbers(batch))
      if (starts.length === 1) throw await lease.rateLimit(300)
      return allDone(batch)
    }
    await work({ size: 3 }, run)
    await until('all are done', async () => (await queue.getCompletedCount()) === 3)
    expect(starts[0]).toEqual([0, 1, 2])
    expect(starts.slice(1).flat()).toEqual([0, 1, 2])
    const made = (await queue.getCompleted()).map(({ attemptsMade }) => attemptsMade)
    expect(made).toEqual([1, 1, 1])
    expect(waits).toHaveLength(6)
    expect(waits.slice(3)).toEqual([undefined, undefined, undefined])
  })

  test('holds its line where a job of it has failed for good and the line is blocked by that', async () => {
    const queue = makeQueue()
    await queue.addBulk(jobs(5))
    const { seen, run } = recording((batch) => allButDeclined(batch, ({ data }) => data.nr === 1))
    await work({ size: 3 }, run, { onFailure: 'block' })
    await until('one has failed', async () => (await queue.getFailedCount()) === 1)
    await delay(1_500) // Also after a sweep.
    expect(seen).toEqual([[0, 1, 2]])
    const [failed] = await queue.getFailed()
    expect(await queue.skip(failed?.id ?? '')).toBe(true)
    await until('the line goes on', async () => (await queue.getCompletedCount()) === 4)
    expect(seen).toEqual([
      [0, 1, 2],
      [3, 4],
    ])
  })

  test('stops as a whole when the queue lost the lock on one of its jobs', async () => {
    const queue = makeQueue()
    await queue.addBulk(jobs(3, 'a', { attempts: 3 }))
    const reasons: unknown[] = []
    let runs = 0
    const redlock = await fixture.redlock({ leaseMs: 2_000 })
    const redis = fixture.redis()
    const run: BatchRun<Charge, unknown> = async (batch, lease) => {
      if (runs++ > 0) return allDone(batch)
      await redis.del(`bull:${fixture.namespace}:${batch[1]?.id ?? ''}:lock`)
      if (!lease.signal.aborted) await once(lease.signal, 'abort')
      reasons.push(lease.signal.reason)
      throw new DOMException('aborted', 'AbortError')
    }
    const failures: string[] = []
    const worker = await work({ size: 3 }, run, { redlock })
    worker.on('failed', (_job, { message }) => failures.push(message))
    await until('all are done', async () => (await queue.getCompletedCount()) === 3)
    expect(reasons).toEqual([expect.any(JobLockLostError)])
    // Of the first and the third; the second was not its own any more.
    const [{ message } = { message: '' }] = reasons as Error[]
    expect(failures).toEqual([message, message])
  })

  test('has jobs in the order of their priorities, removes them, and keeps to a limiter', async () => {
    const queue = makeQueue({ within: 'priority' })
    const seen: number[] = []
    for (const nr of [3, 2, 1]) {
      const opts = { priority: nr, removeOnComplete: true }
      await queue.add('charge', { customer: 'a', nr }, opts)
    }
    await queue.add('charge', { customer: 'a', nr: 9 }, { priority: 9 })
    const run: BatchRun<Charge, unknown> = (batch) => {
      seen.push(...numbers(batch))
      return allDone(batch)
    }
    await work({ size: 10 }, run, { limiter: { max: 3, duration: 60_000 } })
    await until('three are done', () => seen.length === 3)
    await until('they are removed', async () => (await queue.getCompletedCount()) === 0)
    await delay(300)
    expect(seen).toEqual([1, 2, 3])
    expect(await queue.getJobCountByTypes('prioritized', 'wait')).toBe(1)
  })

  test('is refused with what counts for one job', async () => {
    await expect(work({ size: 0 }, allDone)).rejects.toThrow(/`size`/)
    await expect(work({ size: 2 }, allDone, { checkpoints: true })).rejects.toThrow(/checkpoints/)
    await expect(work({ size: 2 }, allDone, { order: 'relaxed' })).rejects.toThrow(/order/)
    const dedupe = { resultTtlMs: 1_000 }
    await expect(work({ size: 2 }, allDone, { dedupe })).rejects.toThrow(/dedupe/)
  })
})
