/** The queue's Redis stands still, or is cut off: what had ended meanwhile is not done again. */
import { setTimeout as delay } from 'node:timers/promises'
import { createNodeRedisClient } from 'bullmq'
import type { Redis } from 'ioredis'
import { createClient } from 'redis'
import { expect, test } from 'vitest'
import {
  batchProcessor,
  LineFullError,
  type LeasedProcessor,
  type LockedQueueOptions,
  type LockedWorker,
  type LockedWorkerOptions,
} from '../../src/index.ts'
import { LineBackend } from '../../src/line/line-backend.ts'
import { until, useFleet } from '../fixtures.ts'
import { lockedJobs } from '../support/locked-jobs.ts'
import { startProxy } from '../support/proxy.ts'

type Data = { nr: number }

const fixture = useFleet({ masters: 3 })
/** Of BullMQ's lock on a job. */
const LOCK_MS = 1_000
const OUTAGE_MS = 3 * LOCK_MS
const HOUR_MS = 3_600_000

const { makeQueue, work } = lockedJobs<Data>(fixture, ({ nr }) => `customer:${nr}`, {
  ...{ lockDuration: LOCK_MS, stalledInterval: LOCK_MS },
})

function queuePort(): number {
  return fixture.fleet.queue.port
}

async function isMarked(id: string): Promise<boolean> {
  return (await fixture.redis().sismember(`bull:${fixture.namespace}:stalled`, id)) === 1
}

const names = ({ nr }: Data): string[] => [`customer:${nr}`, `card:${nr}`]

interface Combined {
  readonly ofQueue?: Partial<LockedQueueOptions<Data>>
  readonly ofWorker?: Partial<LockedWorkerOptions<Data>>
  readonly isBatch?: true
  /** It ends when its lock has run out, and does not listen to its signal. */
  readonly isLate?: true
}

/** What people combine it with. */
const COMBINED: Readonly<Record<string, Combined>> = {
  'of one resource': {},
  'that goes on without its lock': { isLate: true },
  'of two resources': {
    ofQueue: { resource: names },
    ofWorker: { resource: ({ data }) => names(data) },
  },
  'with slots': { ofQueue: { slots: 2 }, ofWorker: { slots: 2 } },
  'of a tenant': { ofQueue: { tenant: ({ nr }) => `t${nr % 2}` } },
  'with a shared result': {
    ofWorker: { dedupe: { resultTtlMs: 60_000, key: ({ id = '' }) => id } },
  },
  'in a batch': { isBatch: true },
}

const COMBINATIONS = Object.keys(COMBINED)
test.each(COMBINATIONS)(
  'a job %s that is done while the server hangs is done once',
  fixture.together(COMBINATIONS, async (how) => {
    const { ofQueue, ofWorker, isBatch, isLate } = COMBINED[how] ?? {}
    const { queue: server } = fixture.fleet
    const queue = makeQueue(ofQueue)
    const gate = fixture.gate()
    const ran: string[] = []
    const one: LeasedProcessor<Data, unknown> = async ({ id = '' }, lease) => {
      ran.push(id)
      await (isLate ? gate.passed : lease.step('only', () => gate.passed))
    }
    const several = batchProcessor<Data, unknown>({ size: 2 }, async (jobs) => {
      ran.push(...jobs.map(({ id = '' }) => id))
      return Promise.allSettled(jobs.map(() => gate.passed))
    })
    const unrenewed: string[] = []
    for (let workers = 0; workers < 2; workers++) {
      const worker = await work(isBatch ? several : one, { concurrency: 2, ...ofWorker })
      worker.on('lockRenewalFailed', (ids) => unrenewed.push(...ids))
    }
    const jobs = await queue.addBulk(
      Array.from({ length: 8 }, (_, index) => ({ name: 'charge', data: { nr: index % 4 } })),
    )
    await until('four run', () => ran.length >= 4)
    // Two checks of BullMQ would find them without a lock, and the first one has been.
    await until('a check has marked one', () => isMarked(ran[0] ?? ''))
    await server.freeze()
    fixture.defer(() => server.thaw())
    const untilDoneMs = isLate ? OUTAGE_MS / 2 : LOCK_MS / 5
    await delay(untilDoneMs)
    gate.open()
    await delay(OUTAGE_MS - untilDoneMs)
    await server.thaw()
    await until('all are done', async () => (await queue.getCompletedCount()) === 8)
    expect(ran.toSorted()).toEqual(jobs.map(({ id }) => id).toSorted())
    const found = await Promise.all(jobs.map(({ id = '' }) => queue.getJob(id)))
    expect(found.map((job) => [job?.attemptsMade, job?.stalledCounter])).toEqual(
      found.map(() => [1, 0]),
    )
    // A job that has ended needs no lock. One that stores its result for others still runs.
    if (!isLate && ofWorker?.dedupe === undefined) expect(unrenewed).toEqual([])
  }),
)

const REFUSE = ['CONFIG', 'SET', 'min-replicas-to-write', '1'] as const
const TAKE = ['CONFIG', 'SET', 'min-replicas-to-write', '0'] as const

/** A job is done while the server refuses writes. With `closing`, the server goes on to do so. */
async function endRefused(
  closing: boolean,
  options: Partial<LockedWorkerOptions<Data>> = {},
): Promise<LockedWorker<Data>> {
  const redis = fixture.redis()
  fixture.defer(() => redis.call(...TAKE))
  const queue = makeQueue()
  const gate = fixture.gate()
  let runs = 0
  const worker = await work(async () => {
    runs += 1
    await gate.passed
  }, options)
  const job = await queue.add('charge', { nr: 1 })
  await until('it runs', () => runs === 1)
  await redis.call(...REFUSE)
  gate.open()
  await delay(OUTAGE_MS)
  if (closing) return worker
  await redis.call(...TAKE)
  await until('it is done', () => job.isCompleted())
  const ended = await queue.getJob(job.id ?? '')
  expect([runs, ended?.attemptsMade, ended?.stalledCounter]).toEqual([1, 1, 0])
  return worker
}

// It is sent again in up to a second.
const OFTEN = { stalledInterval: LOCK_MS / 8 }
const REFUSED_ENDS: Readonly<Record<string, () => Promise<unknown>>> = {
  'a job of one resource whose end the server refuses for longer than its lock lasts is done once':
    () => endRefused(false, OFTEN),
  'a job with a shared result whose end the server refuses for longer than its lock lasts is done once':
    () => endRefused(false, { ...COMBINED['with a shared result']?.ofWorker, ...OFTEN }),
  'a worker that closes meanwhile does not wait for the server': async () =>
    (await endRefused(true)).close(),
}
test.each(Object.keys(REFUSED_ENDS))(
  '%s',
  fixture.together(Object.keys(REFUSED_ENDS), async (title) => REFUSED_ENDS[title]?.()),
)

test('a job whose end does not leave its client is done once', async () => {
  const [proxy, ofOther] = [await startProxy(queuePort()), await startProxy(queuePort())]
  for (const each of [proxy, ofOther]) fixture.defer(() => each.close())
  const { port, url } = proxy
  const raw = createClient({ url, socket: { reconnectStrategy: 20 }, disableOfflineQueue: true })
  const nodeRedis = createNodeRedisClient(raw)
  nodeRedis.on('error', () => undefined)
  fixture.defer(() => {
    nodeRedis.disconnect()
  })
  const queue = makeQueue()
  const gate = fixture.gate()
  const ran: (string | undefined)[] = []
  const processor: LeasedProcessor<Data, unknown> = async ({ id }) => {
    ran.push(id)
    await gate.passed
  }
  // Each gives a command up before the server is back, and has one job.
  await work(processor, {
    connection: { port, retryStrategy: () => 20, maxRetriesPerRequest: 5 },
  })
  await work(processor, { connection: { port, enableOfflineQueue: false } })
  await work(processor, { connection: nodeRedis })
  const jobs = await queue.addBulk([1, 2, 3].map((nr) => ({ name: 'charge', data: { nr } })))
  await until('all run', () => ran.length === 3)
  // One without a job finds the server before they do.
  await work(processor, {
    ...{ connection: { port: ofOther.port, retryStrategy: () => 20 } },
    ...{ concurrency: 3, stalledInterval: LOCK_MS / 8 },
  })
  await Promise.all([proxy.refuse(), ofOther.refuse()])
  gate.open()
  await delay(OUTAGE_MS)
  await ofOther.pass()
  await delay(LOCK_MS)
  await proxy.pass()
  await until('all are done', async () => (await queue.getCompletedCount()) === 3)
  expect(ran.toSorted()).toEqual(jobs.map(({ id }) => id).toSorted())
  const found = await Promise.all(jobs.map(({ id = '' }) => queue.getJob(id)))
  expect(found.map((job) => [job?.attemptsMade, job?.stalledCounter])).toEqual(
    found.map(() => [1, 0]),
  )
})

test('an add whose reply is lost is sent again, as with BullMQ; with a jobId there is one job', async () => {
  const proxy = fixture.closing(await startProxy(queuePort()))
  const connection = { port: proxy.port, retryStrategy: () => 20 }
  const counts: (number | undefined)[] = []
  const direct = fixture.plainQueue()
  for (const queue of [makeQueue({ connection }), fixture.plainQueue(undefined, { connection })]) {
    for (const opts of [{}, { jobId: 'invoice-7' }]) {
      queue.on('error', () => undefined)
      await queue.obliterate({ force: true })
      await proxy.dropReplies()
      const added = queue.add('charge', { nr: 1 }, opts)
      await until('the server has done it', async () => (await direct.count()) === 1)
      await proxy.pass()
      await added
      counts.push(await queue.count())
    }
  }
  expect(counts).toEqual([2, 1, 2, 1])
})

test('an add that is sent again may find its own job in a full line; with a jobId it does not', async () => {
  const proxy = fixture.closing(await startProxy(queuePort()))
  const connection = { port: proxy.port, retryStrategy: () => 20 }
  const answers: unknown[] = []
  const direct = fixture.plainQueue()
  for (const opts of [{}, { jobId: 'invoice-7' }]) {
    const queue = makeQueue({ connection, maxLength: 1 })
    queue.on('error', () => undefined)
    await queue.obliterate({ force: true })
    await proxy.dropReplies()
    const added = queue.add('charge', { nr: 1 }, opts).then(
      ({ id }) => id,
      (error: unknown) => error,
    )
    await until('the server has done it', async () => (await direct.count()) === 1)
    await proxy.pass()
    answers.push(await added, await queue.count())
  }
  expect(answers).toEqual([expect.any(LineFullError), 1, 'invoice-7', 1])
})

test('a job that runs elsewhere meanwhile is not ended by its first run', async () => {
  const proxy = fixture.closing(await startProxy(queuePort()))
  const queue = makeQueue()
  const [first, second] = [fixture.gate(), fixture.gate()]
  const ran: string[] = []
  const isRunning = (count: number) => (): boolean => ran.length === count
  const errors: string[] = []
  const cut = await work(
    async () => {
      ran.push('first')
      await first.passed
      return 'of the first'
    },
    { connection: { url: proxy.url } },
  )
  cut.on('error', ({ message }) => errors.push(message))
  const job = await queue.add('charge', { nr: 1 })
  await until('it runs', isRunning(1))
  await proxy.drop()
  first.open()
  await work(async () => {
    ran.push('second')
    await second.passed
    return 'of the second'
  })
  await until('it runs elsewhere', isRunning(2))
  // So this run has no lock either.
  const redis = fixture.redis()
  const dropped = await redis.del(`bull:${fixture.namespace}:${job.id}:lock`)
  await proxy.pass()
  await until('the first has tried', () => errors.some((text) => text.includes('moveToFinished')))
  expect([dropped, await job.getState()]).toEqual([1, 'active'])
  second.open()
  await until('it is done', () => job.isCompleted())
  expect((await queue.getJob(job.id ?? ''))?.returnvalue).toBe('of the second')
  expect(ran).toEqual(['first', 'second'])
})

/** As if the last check for stalled jobs had been at another time. */
async function shiftRecord(shifted: (at: number) => number): Promise<void> {
  const [redis, key] = [fixture.redis(), `bull:${fixture.namespace}:redlock:::checked`]
  const record = ((await redis.get(key)) ?? '').split(' ').map(Number)
  await redis.set(key, record.map((part) => (part > HOUR_MS ? shifted(part) : part)).join(' '))
}

test('jobs of a dead worker run again although every check is late', async () => {
  const queue = makeQueue()
  const everyMs = 25
  const worker = await work(() => Promise.resolve(), {
    ...{ autorun: false, skipStalledCheck: true, stalledInterval: everyMs },
  })
  const job = await queue.add('charge', { nr: 1 })
  await worker.getNextJob('a token that is not renewed')
  await delay(LOCK_MS)
  const lines = LineBackend.of(worker)
  const check = async (): Promise<number> => {
    await delay(4 * everyMs)
    return (await lines.moveStalledJobsToWait()).length
  }
  const moved = [await check()]
  while (moved.length < 12) {
    await shiftRecord((at) => at - HOUR_MS)
    moved.push(await check())
  }
  expect(moved).toEqual([...Array<number>(11).fill(0), 1])
  expect(await job.getState()).toBe('waiting')
})

test('where checks are rare, each one spares, and one follows it soon', async () => {
  const queue = makeQueue()
  const options = { stalledInterval: 60_000, lockDuration: LOCK_MS }
  const dead = await work(() => Promise.resolve(), { ...options, autorun: false })
  const job = await queue.add('charge', { nr: 1 })
  await dead.getNextJob('a token that is not renewed')
  const worker = await work(() => Promise.resolve(), options)
  await until('a check has marked it', () => isMarked(job.id ?? ''))
  await delay(LOCK_MS)
  await shiftRecord((at) => at - 11_000)
  await fixture.redis().del(`bull:${fixture.namespace}:stalled-check`)
  const stalled: number[] = []
  worker.on('stalled', () => stalled.push(performance.now()))
  const before = performance.now()
  await worker.startStalledCheckTimer()
  await until('it is done', () => job.isCompleted())
  expect(stalled).toHaveLength(1)
  expect(Number(stalled[0]) - before).toBeGreaterThan(2_500)
})

test('jobs of a dead worker run again although the server has set its clock back', async () => {
  const queue = makeQueue()
  const everyMs = 100
  const worker = await work(() => Promise.resolve(), {
    ...{ autorun: false, skipStalledCheck: true, stalledInterval: everyMs },
  })
  await queue.add('charge', { nr: 1 })
  await worker.getNextJob('a token that is not renewed')
  await delay(LOCK_MS)
  const lines = LineBackend.of(worker)
  const check = async (afterMs = everyMs + everyMs / 4): Promise<number> => {
    await delay(afterMs)
    return (await lines.moveStalledJobsToWait()).length
  }
  expect([await check(), await check(4 * everyMs)]).toEqual([0, 0])
  await shiftRecord((at) => at + HOUR_MS)
  expect(await check()).toBe(1)
})

test.each([
  ['two seconds at most', {}, 2_000],
  ['as long as it was told', { retryStrategy: () => 9_999 }, 9_999],
])('a server that was away is looked for again: after %s', async (_how, given, expected) => {
  const worker = await work(() => Promise.resolve(), {
    connection: { url: fixture.fleet.queue.url, ...given },
  })
  const lines = LineBackend.of(worker)
  const clients = await Promise.all([lines.connection.client, lines.blockingConnection?.client])
  const waits = clients.map((client) => {
    const { options } = client as unknown as Pick<Redis, 'options'>
    return options.retryStrategy?.(30)
  })
  expect(waits).toEqual([expected, expected])
})

/** How long a command waits for its server. */
function patienceMs({ options }: Pick<Redis, 'options'>): number {
  const { maxRetriesPerRequest, retryStrategy } = options
  const retries = Array.from({ length: maxRetriesPerRequest ?? 0 }, (_, index) => index + 1)
  return retries.reduce((sum, retry) => sum + Number(retryStrategy?.(retry)), 0)
}

test('a command is given up no sooner than with plain BullMQ', async () => {
  const [locked, plain] = [makeQueue(), fixture.plainQueue()]
  const clients = await Promise.all(
    [locked, plain].map((queue) => queue.getBackend().connection.client as Promise<unknown>),
  )
  const [ours = 0, theirs = 0] = clients.map((client) => patienceMs(client as Redis))
  expect(theirs).toBeGreaterThan(100_000)
  expect(ours / theirs).toBeGreaterThan(0.95)
})
