/** A worker or a producer whose clock is wrong decides no time that another process acts on. */
import {
  DelayedError,
  FlowProducer,
  WaitingChildrenError,
  WaitingError,
  Worker,
  type Job,
} from 'bullmq'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { ClockAheadError, listen, type JobLease, type Lease } from '../../src/index.ts'
import { aborted, until, useFleet } from '../fixtures.ts'
import { chargesOf, type Charge, type LockedJobs } from '../support/locked-jobs.ts'

const fixture = useFleet({ masters: 3 })
const { makeQueue, work: workOn } = chargesOf(fixture)

afterEach(() => {
  vi.restoreAllMocks()
})

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

/** The wall clock of this process, and so of BullMQ and of ours, is wrong from now on. */
function setClock(aheadMs: number): void {
  const { now } = Date
  vi.spyOn(Date, 'now').mockImplementation(() => now.call(Date) + aheadMs)
}

/** With leases so long that the masters accept a clock that is seconds off. */
const work: LockedJobs<Charge>['work'] = async (processor, options = {}) => {
  const redlock = options.redlock ?? (await fixture.redlock({ maxLeaseMs: 30_000 }))
  return workOn(processor, { ...options, redlock })
}

/** In how many milliseconds the first delayed job is due, by the clock of the queue's Redis. */
async function dueInMs(): Promise<number> {
  const redis = fixture.redis()
  const key = `bull:${fixture.namespace}:delayed`
  let score: string | undefined
  await until('a job is delayed', async () => {
    score = (await redis.zrange(key, '0', '0', 'WITHSCORES'))[1]
    return score !== undefined
  })
  const [seconds, micros] = await redis.time()
  return Number(score) / 4096 - (Number(seconds) * 1_000 + Number(micros) / 1_000)
}

describe.each([5_000, -5_000])('with a clock that is %i ms ahead', (aheadMs) => {
  test('a job is given back, and tried again, in a time by the clock of the server', async () => {
    const queue = makeQueue()
    const given = await work(async ({ name }, { signal }) => {
      if (name === 'fails') throw new Error('declined')
      throw (await aborted(signal)) as Error
    })
    await given.waitUntilReady()
    setClock(aheadMs)
    const failing = await queue.add(...(['fails', { customer: 'a' }] as const), {
      attempts: 2,
      backoff: 60_000,
    })
    const retried = await dueInMs()
    expect(Math.abs(retried - 60_000)).toBeLessThan(1_000)
    await failing.remove()
    const started = new Promise((resolve) => given.once('active', resolve))
    await queue.add('waits', { customer: 'a' })
    await started
    await given.drain({ timeoutMs: 0 })
    expect(await dueInMs()).toBeLessThan(200)
  })

  test('a delay ends by the clock of the server, where it is set and where it is awaited', async () => {
    const queue = makeQueue()
    const { namespace } = fixture
    const plain = fixture.plainQueue<Charge>(namespace)
    const addedAt = performance.now()
    await plain.add('right', { customer: 'a' }, { delay: 700 })
    setClock(aheadMs)
    await queue.add('wrong', { customer: 'b' }, { delay: 700 })
    const started = new Map<string, number>()
    const redis = fixture.redis()
    const scripts = async (): Promise<number> => {
      const stats = await redis.info('commandstats')
      return Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1] ?? 0)
    }
    const before = await scripts()
    await work(({ name }) => Promise.resolve(started.set(name, performance.now() - addedAt)))
    await until('both ran', () => started.size === 2, 5_000)
    for (const ms of started.values()) {
      expect(ms).toBeGreaterThan(650)
      expect(ms).toBeLessThan(3_000)
    }
    // It has not asked without end meanwhile.
    expect((await scripts()) - before).toBeLessThan(200)
  })

  test('a job that is tried again at once lets a delayed job start when it is due', async () => {
    const queue = makeQueue()
    const ran: string[] = []
    setClock(aheadMs)
    await queue.add('once more', { customer: 'a' }, { attempts: 2 })
    const late = await queue.add('late', { customer: 'b' }, { delay: 2_000 })
    await work(({ name }) => {
      ran.push(name)
      return ran.length === 1 ? Promise.reject(new Error('declined')) : Promise.resolve()
    })
    await until('it ran again', () => ran.length > 1)
    await until('it has ended', async () => (await queue.getActiveCount()) === 0)
    expect(ran).toEqual(['once more', 'once more'])
    expect(await late.getState()).toBe('delayed')
  })

  test.each(['ends', 'is cancelled'])(
    'the delay of a parent, whose last child %s, ends by the clock of the server',
    async (how) => {
      const queue = makeQueue()
      const flows = fixture.closing(new FlowProducer({ connection: fixture.connection }))
      const { namespace: queueName } = fixture
      const data = { customer: 'a' }
      const opts = how === 'ends' ? {} : { delay: 600_000, ignoreDependencyOnFailure: true }
      const { children = [] } = await flows.add({
        ...{ name: 'whole', queueName, data, opts: { delay: 60_000 } },
        children: [{ name: 'part', queueName, data, opts }],
      })
      setClock(aheadMs)
      if (how === 'ends') await work(() => Promise.resolve('done'))
      else await queue.cancel(children[0]?.job.id ?? '')
      await until('it is over', async () => (await queue.getWaitingChildrenCount()) === 0)
      expect(Math.abs((await dueInMs()) - 60_000)).toBeLessThan(1_000)
    },
  )

  test('a scheduler begins, and goes on, by the clock of the server', async () => {
    const queue = makeQueue()
    const started: number[] = []
    await work(() => Promise.resolve(started.push(performance.now())))
    setClock(aheadMs)
    const template = { name: 'tick', data: { customer: 'a' } }
    await queue.upsertJobScheduler('often', { every: 300, limit: 3 }, template)
    vi.restoreAllMocks()
    await until('three ran', () => started.length === 3, 4_000)
    const [first = 0, , last = 0] = started
    expect(last - first).toBeGreaterThan(350)
  })

  test('a limit ends, and is told, by the clock of the server', async () => {
    const queue = makeQueue()
    setClock(aheadMs)
    await queue.pauseResource('a', { until: Date.now() + 1_000 })
    expect((await queue.getLimits('a')).paused).toBeDefined()
    expect([...(await queue.getAllLimits()).keys()]).toEqual(['a'])
    const addedAt = performance.now()
    await queue.add('charge', { customer: 'a' })
    vi.restoreAllMocks()
    expect((await queue.getLimits('a')).paused).toBeDefined()
    let ranAt = 0
    await work(() => Promise.resolve((ranAt = performance.now())))
    await until('it ran', () => ranAt > 0, 6_000)
    expect(ranAt - addedAt).toBeGreaterThan(700)
    expect(await queue.getLimits('a')).toEqual({})
  })

  test('a job waits no longer, and no shorter, than its limit', async () => {
    setClock(aheadMs)
    const queue = makeQueue({ maxWaitMs: 500 })
    const gate = fixture.gate()
    await work(({ name }) => (name === 'first' ? gate.passed : Promise.resolve()), {
      maxWaitMs: 500,
    })
    await queue.add('first', { customer: 'a' })
    const addedAt = performance.now()
    await queue.add('second', { customer: 'a' })
    await until('the second failed', async () => (await queue.getFailedCount()) === 1, 5_000)
    expect(performance.now() - addedAt).toBeGreaterThan(450)
  })
})

test('a limit on waiting does not count a delay, nor the time before a retry', async () => {
  const queue = makeQueue({ maxWaitMs: 300 })
  const ran: string[] = []
  const gate = fixture.gate()
  await work(
    async ({ name, attemptsMade }) => {
      ran.push(name)
      if (name === 'blocks') await gate.passed
      if (name === 'fails' && attemptsMade === 0) throw new Error('declined')
    },
    { maxWaitMs: 300 },
  )
  await queue.add('fails', { customer: 'a' }, { attempts: 2, backoff: 600 })
  await until('it failed once', () => ran.length === 1)
  await queue.add('delayed', { customer: 'b' }, { delay: 600 })
  await pause(500)
  await queue.add('blocks', { customer: 'b' })
  await pause(200)
  gate.open()
  await until('all are done', async () => (await queue.getCompletedCount()) === 3, 5_000)
  expect(await queue.getFailedCount()).toBe(0)
})

test.each(['delayed', 'waiting', 'waiting-children', 'sleeping', 'stalled'])(
  'a job that has run, and is %s since, waits for its lease without a limit, and is measured once',
  async (what) => {
    const options = { maxWaitMs: 100 }
    const queue = makeQueue(options)
    const redlock = await fixture.redlock()
    const waits: (number | undefined)[] = []
    fixture.defer(listen({ on: { 'job:started': ({ waitedMs }) => void waits.push(waitedMs) } }))
    const moves = async (job: Job, lease: JobLease & string): Promise<void> => {
      if (what === 'sleeping') throw await lease.rateLimit(50)
      if (what === 'delayed') {
        await job.moveToDelayed(Date.now() + 50, lease)
        throw new DelayedError()
      }
      if (what === 'waiting') {
        await job.moveToWait(lease)
        throw new WaitingError()
      }
      const { id = '', queueQualifiedName } = job
      const parent = { id, queue: queueQualifiedName }
      await queue.add('part', { customer: 'b' }, { parent, delay: 200 })
      await job.moveToWaitingChildren(lease)
      throw new WaitingChildrenError()
    }
    const gate = fixture.gate()
    let runs = 0
    const others = await fixture.redlock()
    let held: Promise<Lease> | undefined
    const start = () =>
      workOn(
        async (job, lease) => {
          if (job.name === 'part' || ++runs > 1) return
          held = others.acquire('a', { waitMs: 10_000, autoExtend: true })
          // What a worker that is cut off looks like.
          if (what === 'stalled') await fixture.redis().del(`bull:${queue.name}:${job.id}:lock`)
          if (what === 'stalled') return gate.passed
          await pause(150)
          return moves(job as Job, lease)
        },
        { ...options, redlock, lockDuration: 1_000 },
      )
    const first = await start()
    const worker = await start()
    let requeues = 0
    for (const each of [first, worker]) each.on('requeued', () => requeues++)
    await queue.add('charge', { customer: 'a' })
    await until('it waits for a lease', () => requeues > 0, 10_000)
    await pause(150)
    gate.open()
    await (await held)?.release()
    await until('it has run again', () => runs > 1, 10_000)
    expect(await queue.getFailedCount()).toBe(0)
    expect(waits.filter((wait) => wait !== undefined)).toHaveLength(
      what === 'waiting-children' ? 2 : 1,
    )
  },
)

test('what a job waited is measured from when it could run: not its delay, its children or an earlier run', async () => {
  const queue = makeQueue()
  const waits = new Map<string, number | undefined>()
  const stop = listen({
    on: { 'job:started': ({ job: { id = '' }, waitedMs }) => void waits.set(id, waitedMs) },
  })
  fixture.defer(stop)
  const others = await fixture.redlock()
  const lease = await others.acquire('taken', { autoExtend: true })
  let fails = true
  await workOn(async ({ name }) => {
    if (name === 'part') await pause(600)
    if (name === 'fails' && fails) throw new Error('declined')
  })
  const flows = fixture.closing(new FlowProducer({ connection: fixture.connection }))
  const queueName = fixture.namespace
  const { job: parent } = await flows.add({
    ...{ name: 'whole', queueName, data: { customer: 'a' } },
    children: [{ name: 'part', queueName, data: { customer: 'b' } }],
  })
  const { job: other } = await flows.add({
    ...{ name: 'whole', queueName, data: { customer: 'e' } },
    children: [{ name: 'part', queueName: `${queueName}-plain`, data: {} }],
  })
  const plain = new Worker(`${queueName}-plain`, () => pause(600), {
    connection: fixture.connection,
  })
  fixture.defer(() => plain.close())
  const delayed = await queue.add('delayed', { customer: 'c' }, { delay: 100 })
  await delayed.changeDelay(700)
  const failed = await queue.add('fails', { customer: 'd' })
  const taken = await queue.add('taken', { customer: 'taken' })
  await pause(600)
  fails = false
  await (await queue.getJob(failed.id ?? ''))?.retry('failed', { resetAttemptsMade: true })
  await lease.release()
  await until('all are done', async () => (await queue.getCompletedCount()) === 6, 5_000)
  expect(waits.get(taken.id ?? '')).toBeGreaterThan(500)
  for (const { id = '' } of [parent, other, delayed, failed])
    expect(waits.get(id)).toBeLessThan(400)
})

test.each([
  'of a producer whose clock is behind',
  'that waited for its children',
  'that waited for children of a plain queue',
])('a job %s waits no shorter for a lease that others hold', async (what) => {
  const options = { maxWaitMs: 1_500 }
  const queue = makeQueue(options)
  const redlock = await fixture.redlock()
  const lease = await redlock.acquire('a', { autoExtend: true })
  if (what.startsWith('of')) {
    setClock(-3_600_000)
    await queue.add('charge', { customer: 'a' })
    vi.restoreAllMocks()
  } else {
    const flows = fixture.closing(new FlowProducer({ connection: fixture.connection }))
    const queueName = fixture.namespace
    await flows.add({
      ...{ name: 'whole', queueName, data: { customer: 'a' } },
      children: [
        {
          ...{ name: 'part', data: { customer: 'b' }, opts: { delay: 1_600 } },
          queueName: what.includes('plain') ? `${queueName}-plain` : queueName,
        },
      ],
    })
    const plain = new Worker(`${queueName}-plain`, () => Promise.resolve(), {
      connection: fixture.connection,
    })
    fixture.defer(() => plain.close())
  }
  let requeuedAt: number | undefined
  const worker = await workOn(() => Promise.resolve('done'), { ...options, redlock })
  worker.on('requeued', () => (requeuedAt ??= performance.now()))
  await until('it has failed', async () => (await queue.getFailedCount()) === 1, 10_000)
  expect(performance.now() - (requeuedAt ?? Infinity)).toBeGreaterThan(1_000)
  await lease.release()
})

test('a job that waits for a shared result goes back where the masters refuse its clock', async () => {
  const queue = makeQueue()
  const redlock = await fixture.redlock({ leaseMs: 3_000, maxClockSkewMs: 200 })
  let compute: (() => void) | undefined
  const dedupe = { resultTtlMs: 60_000, key: () => 'report' }
  const worker = await work(() => new Promise<void>((resolve) => (compute = resolve)), {
    redlock,
    dedupe,
    concurrency: 2,
  })
  await queue.add('report', { customer: 'a' })
  await queue.add('report', { customer: 'b' })
  await until('one computes', () => compute !== undefined)
  await until('both are active', async () => (await queue.getActiveCount()) === 2)
  setClock(1_000)
  compute?.()
  await until('the other went back', async () => (await queue.getActiveCount()) === 0, 8_000)
  vi.restoreAllMocks()
  await until('both are done', async () => (await queue.getCompletedCount()) === 2, 15_000)
  await worker.close()
})

test('a worker whose clock the masters refuse says so, takes no jobs, and starts when it is right', async () => {
  const queue = makeQueue()
  const redlock = await fixture.redlock({ maxLeaseMs: 30_000 })
  setClock(60_000)
  const errors: unknown[] = []
  const worker = await work(() => Promise.resolve('done'), { redlock, autorun: false })
  worker.on('error', (error) => errors.push(error))
  worker.run().catch(() => undefined)
  await queue.add('charge', { customer: 'a' })
  await until('it says so', () => errors.some((error) => error instanceof ClockAheadError))
  expect(String(errors[0])).toMatch(/clock of this machine is (59|60)\d\d\d ms ahead/)
  expect(await queue.getWaitingCount()).toBe(1)
  vi.restoreAllMocks()
  await until('it is done', async () => (await queue.getCompletedCount()) === 1)
})
