/** Lines of waiting jobs: order, no work in vain, and every way in which a wake-up could be lost. */
import { Queue, Worker, type Job, type JobsOptions } from 'bullmq'
import { Redis } from 'ioredis'
import { describe, expect, test } from 'vitest'
import { systemClock, type Clock } from '../../src/clock.ts'
import {
  LockedQueue,
  LockedWorker,
  type LeasedProcessor,
  type LockedWorkerOptions,
} from '../../src/index.ts'
import { openQueueConnection } from '../../src/redis/queue-connection.ts'
import { Lines } from '../../src/worker/lines.ts'
import { asleepPriority, awakePriority, park, parkedMs } from '../../src/worker/requeue.ts'
import { ticketOf } from '../../src/worker/ticket.ts'
import { until, useFleet } from '../fixtures.ts'

interface Charge {
  readonly customer: string
  readonly nr: number
}

const fixture = useFleet({ masters: 5 })
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))
const connection = (): { host: string; port: number } => ({
  host: fixture.fleet.queue.host,
  port: fixture.fleet.queue.port,
})
const named = (customer: string): string => `customer:${customer}`
const resource = ({ customer }: Charge): string => named(customer)

function makeQueue(
  name = fixture.namespace,
  names: (data: Charge) => string | readonly string[] = resource,
): LockedQueue<Charge> {
  const queue = new LockedQueue<Charge>(name, {
    connection: connection(),
    resource: names,
    namespace: fixture.namespace,
  })
  fixture.defer(() => queue.close())
  return queue
}

function lines(queue: Queue, slots = 1): Lines {
  const redis = openQueueConnection(connection())
  fixture.defer(() => {
    redis.close()
    return Promise.resolve()
  })
  return new Lines(redis, queue.getBackend(), { namespace: fixture.namespace, slots }, systemClock)
}

interface Seen {
  readonly runs: string[]
  readonly requeues: string[]
}

async function startWorkers(
  count: number,
  options: Partial<LockedWorkerOptions<Charge>> = {},
  processor: LeasedProcessor<Charge, unknown> = () => pause(3),
  name = fixture.namespace,
): Promise<Seen> {
  const seen: Seen = { runs: [], requeues: [] }
  const redlock = await fixture.redlock()
  for (let index = 0; index < count; index++) {
    const worker = new LockedWorker<Charge, unknown>(
      name,
      (job, lease) => {
        seen.runs.push(`${job.data.customer}${job.data.nr}`)
        return processor(job, lease)
      },
      {
        connection: connection(),
        redlock,
        resource: (job) => resource(job.data),
        concurrency: 4,
        ...options,
      },
    )
    worker.on('requeued', (_job, { status }) => seen.requeues.push(status))
    worker.on('error', () => undefined)
    fixture.defer(() => worker.close())
  }
  return seen
}

const bulk = (customers: readonly string[], each: number, opts: JobsOptions = {}) =>
  Array.from({ length: customers.length * each }, (_, index) => ({
    name: 'charge',
    data: {
      customer: customers[index % customers.length] ?? '',
      nr: Math.floor(index / customers.length),
    },
    opts,
  }))

/** The runs of one customer, by number. */
const of = (runs: readonly string[], customer: string): number[] =>
  runs.filter((run) => run.startsWith(customer)).map((run) => Number(run.slice(customer.length)))
const upTo = (count: number): number[] => Array.from({ length: count }, (_, index) => index)

describe('strict order', () => {
  test('jobs run in the order in which they were added, and none is started in vain', async () => {
    const queue = makeQueue()
    const seen = await startWorkers(3)
    await queue.addBulk(bulk(['a', 'b', 'c'], 8))
    for (let nr = 8; nr < 12; nr++) {
      for (const customer of ['a', 'b', 'c']) await queue.add('charge', { customer, nr })
    }
    await until('all are done', async () => (await queue.getCompletedCount()) === 36)
    for (const customer of ['a', 'b', 'c']) expect(of(seen.runs, customer)).toEqual(upTo(12))
    expect(seen.requeues).toEqual([])
    expect(await lines(queue).length(named('a'))).toBe(0)
  })

  test('a job that is retried keeps its place', async () => {
    const queue = makeQueue()
    const seen = await startWorkers(2, {}, (job) =>
      job.data.nr === 0 && job.attemptsMade < 2
        ? Promise.reject(new Error('card declined'))
        : Promise.resolve(),
    )
    await queue.addBulk(bulk(['a'], 3, { attempts: 3, backoff: { type: 'fixed', delay: 30 } }))
    await until('all are done', async () => (await queue.getCompletedCount()) === 3)
    expect(of(seen.runs, 'a')).toEqual([0, 0, 0, 1, 2])
  })

  test('a job that failed for good lets the next one run', async () => {
    const queue = makeQueue()
    const seen = await startWorkers(2, {}, (job) =>
      job.data.nr === 0 ? Promise.reject(new Error('card declined')) : Promise.resolve(),
    )
    await queue.addBulk(bulk(['a'], 3))
    await until('the others are done', async () => (await queue.getCompletedCount()) === 2)
    expect(of(seen.runs, 'a')).toEqual([0, 1, 2])
  })

  test("or, with onFailure 'block', holds them until it is removed", async () => {
    const queue = makeQueue()
    const seen = await startWorkers(2, { onFailure: 'block' }, (job) =>
      job.data.nr === 0 ? Promise.reject(new Error('card declined')) : Promise.resolve(),
    )
    const [first] = await queue.addBulk(bulk(['a'], 3))
    await until('it failed', async () => (await queue.getFailedCount()) === 1)
    await pause(2_500) // Longer than it takes until lines that stand still are looked at.
    expect(of(seen.runs, 'a')).toEqual([0])
    await first?.remove()
    await until('the others are done', async () => (await queue.getCompletedCount()) === 2)
    expect(of(seen.runs, 'a')).toEqual([0, 1, 2])
  })

  test('holds across several queues that share a resource', async () => {
    const invoices = makeQueue(`${fixture.namespace}-invoices`)
    const refunds = makeQueue(`${fixture.namespace}-refunds`)
    for (let nr = 0; nr < 12; nr++) {
      await (nr % 2 === 0 ? invoices : refunds).add('x', { customer: 'a', nr })
    }
    const seen = await startWorkers(1, {}, undefined, invoices.name)
    const others = await startWorkers(
      1,
      {},
      (job) => {
        seen.runs.push(`a${job.data.nr}`)
        return pause(3)
      },
      refunds.name,
    )
    await until('all are done', () => seen.runs.length === 12)
    expect(of(seen.runs, 'a')).toEqual(upTo(12))
    expect(others.requeues).toEqual([])
  })

  test('holds for jobs that touch several resources, without deadlock', async () => {
    const both = (data: Charge): string[] => data.customer.split('').map(named)
    const queue = new LockedQueue<Charge>(fixture.namespace, {
      connection: connection(),
      namespace: fixture.namespace,
      resource: both,
    })
    fixture.defer(() => queue.close())
    const busy = new Set<string>()
    const seen = await startWorkers(3, { resource: (job) => both(job.data) }, async (job) => {
      for (const one of job.data.customer) {
        expect(busy.has(one)).toBe(false)
        busy.add(one)
      }
      await pause(3)
      for (const one of job.data.customer) busy.delete(one)
    })
    const transfers = ['ab', 'bc', 'ca', 'a', 'b', 'c']
    const jobs = Array.from({ length: 30 }, (_, nr) => ({
      name: 'transfer',
      data: { customer: transfers[nr % transfers.length] ?? '', nr },
    }))
    await queue.addBulk(jobs)
    await until('all are done', async () => (await queue.getCompletedCount()) === 30)
    for (const account of ['a', 'b', 'c']) {
      const mine = seen.runs.filter((run) => /^[a-c]*/.exec(run)?.[0].includes(account) === true)
      const nrs = mine.map((run) => Number(run.replace(/^[a-c]*/, '')))
      expect(nrs).toEqual([...nrs].sort((x, y) => x - y))
    }
  }, 30_000)

  test('a plain Queue works too: jobs take their place when they are first started', async () => {
    const queue = new Queue<Charge>(fixture.namespace, { connection: connection() })
    fixture.defer(() => queue.close())
    const seen = await startWorkers(3)
    await queue.addBulk(bulk(['a', 'b'], 10))
    await until('all are done', async () => (await queue.getCompletedCount()) === 20)
    expect(of(seen.runs, 'a').sort((x, y) => x - y)).toEqual(upTo(10))
    expect(new Set(seen.requeues)).toEqual(new Set(['in-line']))
    // Each was told at most once that it is not its turn.
    expect(seen.requeues.length).toBeLessThanOrEqual(20)
  })

  test("order 'relaxed' keeps no lines", async () => {
    const queue = new Queue<Charge>(fixture.namespace, { connection: connection() })
    fixture.defer(() => queue.close())
    const seen = await startWorkers(2, { order: 'relaxed' })
    await queue.addBulk(bulk(['a'], 6))
    await until('all are done', async () => (await queue.getCompletedCount()) === 6)
    expect(seen.requeues).not.toContain('in-line')
    expect(await lines(queue).length(named('a'))).toBe(0)
  })
})

describe('BullMQ beside it', () => {
  test('a job that is due later holds nobody up', async () => {
    const queue = makeQueue()
    const seen = await startWorkers(1)
    await queue.add('later', { customer: 'a', nr: 1 }, { delay: 300 })
    await queue.add('now', { customer: 'a', nr: 0 })
    await until('both are done', async () => (await queue.getCompletedCount()) === 2)
    expect(of(seen.runs, 'a')).toEqual([0, 1])
  })

  test('a woken job keeps its priority and goes before others of the same', async () => {
    const queue = makeQueue()
    await queue.add('x', { customer: 'a', nr: 0 }, { priority: 5 })
    await queue.add('x', { customer: 'a', nr: 1 }, { priority: 5 })
    await queue.addBulk(
      upTo(30).map((nr) => ({
        name: 'x',
        data: { customer: `other${nr}-`, nr: 0 },
        opts: { priority: 5 },
      })),
    )
    const seen = await startWorkers(1, { concurrency: 1 })
    await until('both are done', () => of(seen.runs, 'a').length === 2)
    expect(seen.runs.indexOf('a1')).toBeLessThan(6)
    await until('all are done', async () => (await queue.getCompletedCount()) === 32)
  })

  test('a woken job goes before all that wait, and none of these is looked at for it', async () => {
    const queue = makeQueue()
    await queue.addBulk(
      upTo(50).map((nr) => ({ name: 'x', data: { customer: `other${nr}-`, nr: 0 } })),
    )
    await queue.addBulk(bulk(['a'], 2))
    const [sleeper] = await queue.getDelayed()
    if (sleeper === undefined) throw new Error('nobody sleeps')
    const redis = new Redis(fixture.fleet.queue.url)
    await redis.config('RESETSTAT')
    await lines(queue).wake({ ticket: ticketOf(sleeper), priority: 0 })
    expect(await redis.info('commandstats')).not.toContain('cmdstat_lrem')
    redis.disconnect()
    const [waits] = await queue.getWaiting(0, 0)
    expect(waits?.id).toBe(sleeper.id)
    expect((await queue.getJob(sleeper.id ?? ''))?.priority).toBe(0)
  })

  test('a job that was added asleep and woke by itself sleeps again as if it had no priority', async () => {
    const queue = makeQueue()
    await queue.addBulk(bulk(['a'], 2))
    const worker = new Worker<Charge>(fixture.namespace, null, { connection: connection() })
    fixture.defer(() => worker.close())
    await worker.getNextJob('token-1')
    const [sleeper] = await queue.getDelayed()
    await sleeper?.promote()
    const started = await worker.getNextJob('token-2')
    const line = lines(queue)
    await park(started, 'token-2', [named('a')], line, systemClock)
    const redis = new Redis(fixture.fleet.queue.url)
    const marks = await redis.hvals(`${fixture.namespace}:{${named('a')}}:parked`)
    redis.disconnect()
    expect(marks).toEqual(['0:1'])
  })

  test('combinations that would lose jobs are refused with the reason', async () => {
    const queue = makeQueue()
    const data = { customer: 'a', nr: 0 }
    await expect(
      queue.add('x', data, { deduplication: { id: 'd', replace: true } }),
    ).rejects.toThrow(/`deduplication.replace` .* waits for its turn/)
    await expect(
      queue.add('x', data, { deduplication: { id: 'd', keepLastIfActive: true } }),
    ).rejects.toThrow(/`deduplication.keepLastIfActive`/)
    expect(await queue.count()).toBe(0)
  })
})

/** Two jobs of one customer, both started by hand, so that a test decides who does what when. */
async function twoStarted(): Promise<{
  first: Job<Charge>
  second: Job<Charge>
  worker: Worker<Charge>
  line: Lines
  resources: readonly string[]
  queue: Queue<Charge>
}> {
  const queue = new Queue<Charge>(fixture.namespace, { connection: connection() })
  fixture.defer(() => queue.close())
  const worker = new Worker<Charge>(fixture.namespace, null, { connection: connection() })
  fixture.defer(() => worker.close())
  await queue.addBulk(bulk(['a'], 2))
  const first = await worker.getNextJob('token-1')
  const second = await worker.getNextJob('token-2')
  const line = lines(queue)
  const resources = [named('a')]
  expect(await line.isTurn(resources, ticketOf(first))).toBe(true)
  expect(await line.isTurn(resources, ticketOf(second))).toBe(false)
  return { first, second, worker, line, resources, queue }
}

describe('a job in several lines', () => {
  const ticket = (jobId: string) => ({ prefix: 'bull', queue: 'q', jobId })

  test('that is started while it still joins keeps one place, so that nobody waits for each other', async () => {
    const line = lines(makeQueue())
    await line.join([named('a')], ticket('first')) // Its producer has come only this far …
    await line.join([named('a'), named('b')], ticket('second'))
    await line.join([named('a'), named('b')], ticket('first')) // … when a worker starts it.
    expect(await line.isTurn([named('a'), named('b')], ticket('first'))).toBe(true)
    expect(await line.isTurn([named('a'), named('b')], ticket('second'))).toBe(false)
  })

  test('that lost one of its places stands in the same order in all again', async () => {
    const line = lines(makeQueue())
    const both = [named('a'), named('b')]
    await line.join(both, ticket('first'))
    await line.join(both, ticket('second'))
    const redis = openQueueConnection(connection())
    const first = JSON.stringify(['bull', 'q', 'first'])
    await redis.command('ZREM', `${fixture.namespace}:{${named('a')}}:line`, first)
    redis.close()
    const turns = [
      await line.isTurn(both, ticket('first')),
      await line.isTurn(both, ticket('second')),
    ]
    expect(turns.filter(Boolean)).toHaveLength(1)
  })
})

describe('a job that starts for the first time', () => {
  test('sees whether it is its turn, and who follows it asleep', async () => {
    const queue = makeQueue()
    await queue.addBulk(bulk(['a'], 2))
    const line = lines(queue)
    const [first] = await queue.getWaiting()
    const [second] = await queue.getDelayed()
    if (first === undefined || second === undefined) throw new Error('the line has no two jobs')
    expect(await line.start([named('a')], ticketOf(first))).toEqual({
      isTurn: true,
      following: { ticket: ticketOf(second), priority: 0 },
    })
    expect(await line.start([named('a')], ticketOf(second))).toEqual({ isTurn: false })
    expect(await line.start([named('a')], { ...ticketOf(first), jobId: 'other' })).toEqual({
      isTurn: false,
    })
    expect(await line.length(named('a'))).toBe(3)
  })

  test('passes no turn to one that is up', async () => {
    const { first, line, resources } = await twoStarted()
    expect(await line.start(resources, ticketOf(first))).toEqual({ isTurn: true })
  })
})

describe('a job is added before it joins its line', () => {
  /** Nobody looks after lines that stand still. */
  async function stopSweeps(): Promise<void> {
    const redis = new Redis(fixture.fleet.queue.url)
    await redis.set(`${fixture.namespace}:sweeper`, '1', 'PX', 60_000)
    redis.disconnect()
  }

  test.each([
    ['that runs it', [named('a')], {}, 0],
    ['that runs it under two resources', [named('a'), named('b')], {}, 0],
    ['that has its result already', [named('a')], { dedupe: { resultTtlMs: 60_000 } }, 1],
  ])(
    'a worker %s before it joins leaves no place behind',
    async (_how, names, options, earlier) => {
      await stopSweeps()
      const queue = makeQueue(fixture.namespace, () => names)
      await startWorkers(1, { ...options, resource: () => names })
      const line = lines(queue)
      const isFree = async (): Promise<boolean> => {
        const left = await Promise.all(names.map((name) => line.length(name)))
        return left.every((length) => length === 0)
      }
      const isDone = async (): Promise<boolean> => (await queue.getCompletedCount()) === earlier
      for (let nr = 0; nr < earlier; nr++) await queue.add('x', { customer: 'a', nr })
      await until('those before it are done', isDone)
      await until('and have left', isFree)
      const backend = queue.getBackend()
      const addJob = backend.addJob.bind(backend)
      backend.addJob = async (...args) => {
        const id = await addJob(...args)
        await until('it is done', async () => (await queue.getCompletedCount()) > earlier)
        await until('and has left', isFree)
        await pause(50) // Also whoever had no place to leave.
        return id // The producer hears of it only now.
      }
      await queue.add('x', { customer: 'a', nr: earlier })
      await until('its place is free', isFree)
    },
  )

  test('whoever becomes first in between is woken by its producer', async () => {
    await stopSweeps()
    const queue = makeQueue()
    const line = lines(queue)
    const ahead = { prefix: 'bull', queue: 'q', jobId: 'ahead' }
    await line.join([named('a')], ahead)
    const backend = queue.getBackend()
    const addJob = backend.addJob.bind(backend)
    backend.addJob = async (...args) => {
      await line.leave([named('a')], ahead)
      return addJob(...args)
    }
    const job = await queue.add('x', { customer: 'a', nr: 1 })
    expect(job.opts.delay).toBeGreaterThan(0)
    expect(await job.getState()).toBe('waiting')
  })

  test("the one that BullMQ's deduplication keeps has one place", async () => {
    const queue = makeQueue()
    const options = { deduplication: { id: 'd' } }
    const first = await queue.add('x', { customer: 'a', nr: 0 }, options)
    const second = await queue.add('x', { customer: 'a', nr: 1 }, options)
    expect(second.id).toBe(first.id)
    const members = await lines(queue).members(named('a'), 9)
    expect(members.map(({ ticket }) => ticket.jobId)).toEqual([first.id])
  })
})

test('priorities are those that were given, when a job wakes', () => {
  const asleep = { delay: parkedMs(0.5) }
  expect(awakePriority({ priority: asleepPriority(0), opts: asleep })).toBe(0)
  expect(awakePriority({ priority: asleepPriority(7), opts: asleep })).toBe(7)
  const least = asleepPriority(0)
  expect(awakePriority({ priority: asleepPriority(least), opts: asleep })).toBe(least - 1)
  // It was not added asleep, so this is its own.
  expect(awakePriority({ priority: least, opts: {} })).toBe(least)
})

test('a job that has left takes no place by looking', async () => {
  const { first, line, resources } = await twoStarted()
  await line.leave(resources, ticketOf(first))
  expect(await line.wakeUp(resources, ticketOf(first), 1)).toEqual({ isTurn: false, isLost: true })
  expect(await line.length(named('a'))).toBe(1)
})

test('whoever leaves asks nothing about one that is up', async () => {
  const { first, second, line, resources, queue } = await twoStarted()
  await park(second, 'token-2', resources, line, systemClock)
  await line.leave(resources, ticketOf(first), ticketOf(second))
  expect(await queue.getJobState(second.id ?? '')).toBe('delayed')
  await line.leave(resources, ticketOf(first))
  expect(await queue.getJobState(second.id ?? '')).toBe('waiting')
})

test.each(['who leaves', 'who takes out the one before it'])(
  '%s wakes the other one that may run, where two may',
  async (one) => {
    const { first, second, resources, queue } = await twoStarted()
    const line = lines(queue, 2)
    const third = await queue.add('job', { customer: 'a', nr: 2 }, { delay: 60_000 })
    await line.join(resources, ticketOf(third), { sleepers: 0 })
    if (one === 'who leaves') await line.leave(resources, ticketOf(first), ticketOf(second))
    else await line.wakeUp(resources, ticketOf(second), 1, ticketOf(first))
    expect(await queue.getJobState(third.id ?? '')).toBe('waiting')
  },
)

test('a job that is up takes out the one before it and sees who follows', async () => {
  const { first, second, line, resources, queue } = await twoStarted()
  const third = await queue.add('job', { customer: 'a', nr: 2 }, { delay: 60_000 })
  await line.join(resources, ticketOf(third), { sleepers: 7 })
  expect(await line.wakeUp(resources, ticketOf(second), 1)).toMatchObject({ isTurn: false })
  expect(await line.wakeUp(resources, ticketOf(second), 1, ticketOf(first))).toEqual({
    isTurn: true,
    following: { ticket: ticketOf(third), priority: 7 },
  })
  expect(await queue.getJobState(third.id ?? '')).toBe('delayed')
})

describe('a wake-up is not lost', () => {
  test('when the head leaves between the look and the parking: the second look', async () => {
    const { first, second, line, resources, queue } = await twoStarted()
    await line.leave(resources, ticketOf(first))
    await park(second, 'token-2', resources, line, systemClock)
    expect(await queue.getJobState(second.id ?? '')).toBe('waiting')
  })

  test('when its waker finds it still active', async () => {
    const { first, second, line, resources, queue } = await twoStarted()
    await line.park(resources, { ticket: ticketOf(second), priority: 0 }, 1)
    await line.leave(resources, ticketOf(first))
    expect(await queue.getJobState(second.id ?? '')).toBe('active')
    await park(second, 'token-2', resources, line, systemClock)
    expect(await queue.getJobState(second.id ?? '')).toBe('waiting')
  })

  test('when it was woken early, and parked again before the one ahead of it leaves', async () => {
    const { first, second, worker, line, resources, queue } = await twoStarted()
    const ticket = ticketOf(second)
    await park(second, 'token-2', resources, line, systemClock)
    expect(await line.wake({ ticket, priority: 0 })).toBe(true)
    const again = await worker.getNextJob('token-3')
    expect(await line.wakeUp(resources, ticket, again.attemptsStarted)).toMatchObject({
      isTurn: false,
      isNext: true,
    })
    await park(again, 'token-3', resources, line, systemClock)
    await line.leave(resources, ticketOf(first))
    expect(await queue.getJobState(second.id ?? '')).toBe('waiting')
  })

  test('when a frozen worker looks for a start that is over: the mark of a later one stays', async () => {
    const { first, second, worker, line, resources, queue } = await twoStarted()
    const ticket = ticketOf(second)
    await park(second, 'token-2', resources, line, systemClock)
    await line.wake({ ticket, priority: 0 })
    const again = await worker.getNextJob('token-3')
    await line.wakeUp(resources, ticket, again.attemptsStarted)
    const asleep = async (): Promise<unknown> => (await line.members(named('a'), 2))[1]?.parked
    expect(await asleep()).toBe(false)
    await park(again, 'token-3', resources, line, systemClock)
    await line.wakeUp(resources, ticket, second.attemptsStarted)
    expect(await asleep()).toBe(true)
    await line.leave(resources, ticketOf(first))
    expect(await queue.getJobState(second.id ?? '')).toBe('waiting')
  })

  test('when somebody comes while an empty line is taken off the list', async () => {
    const resource = named('a')
    const ticket = { prefix: 'bull', queue: 'q', jobId: 'late' }
    const redis = openQueueConnection(connection())
    fixture.defer(() => {
      redis.close()
      return Promise.resolve()
    })
    const options = { namespace: fixture.namespace, slots: 1 }
    const backend = makeQueue().getBackend()
    const other = new Lines(redis, backend, options, systemClock)
    const cutIn: typeof redis = {
      ...redis,
      command: async (name, ...args) => {
        if (name === 'ZREM' && args[0] === `${fixture.namespace}:lines`) {
          await other.join([resource], ticket)
          await other.park([resource], { ticket, priority: 0 }, 1)
        }
        return redis.command(name, ...args)
      },
    }
    const line = new Lines(cutIn, backend, options, systemClock)
    await line.watch([resource])
    await line.repair(resource, 1_000, false)
    expect(await line.silent(100)).toContain(resource)
  })

  test('in the normal course: whoever leaves wakes exactly one', async () => {
    const { first, second, line, resources, queue } = await twoStarted()
    await park(second, 'token-2', resources, line, systemClock)
    expect(await queue.getJobState(second.id ?? '')).toBe('delayed')
    await line.leave(resources, ticketOf(first))
    expect(await queue.getJobState(second.id ?? '')).toBe('waiting')
  })

  test('when the waker died before it woke anybody: lines that stand still are looked at', async () => {
    const { first, second, line, resources, queue } = await twoStarted()
    await park(second, 'token-2', resources, line, systemClock)
    const redis = openQueueConnection(connection())
    fixture.defer(() => {
      redis.close()
      return Promise.resolve()
    })
    const member = JSON.stringify(['bull', queue.name, first.id])
    await redis.command('ZREM', `${fixture.namespace}:{${named('a')}}:line`, member)
    expect(await line.silent(100)).toContain(named('a'))
    await line.repair(named('a'), 1_000, false)
    expect(await queue.getJobState(second.id ?? '')).toBe('waiting')
  })

  test('a head that failed and is retried while the sweep waits keeps its place', async () => {
    const { first, resources, queue } = await twoStarted()
    await first.moveToFailed(new Error('no'), 'token-1')
    const redis = openQueueConnection(connection())
    fixture.defer(() => {
      redis.close()
      return Promise.resolve()
    })
    let goOn: (() => void) | undefined
    const clock: Clock = {
      ...systemClock,
      after: (_delayMs, run) => {
        goOn = run
        return { cancel: () => undefined }
      },
    }
    const options = { namespace: fixture.namespace, slots: 1 }
    const line = new Lines(redis, queue.getBackend(), options, clock)
    const repaired = line.repair(named('a'), 1_000, false)
    await until('it waits', () => goOn !== undefined)
    await first.retry()
    goOn?.()
    await repaired
    expect(await line.isTurn(resources, ticketOf(first))).toBe(true)
  })

  test('when the head is removed, or finished without leaving', async () => {
    const queue = makeQueue()
    await queue.addBulk(bulk(['a'], 3))
    const [head] = await queue.getWaiting()
    await head?.remove()
    const seen = await startWorkers(1)
    await until('the others are done', async () => (await queue.getCompletedCount()) === 2)
    expect(of(seen.runs, 'a')).toEqual([1, 2])
  })

  test('when tickets are lost: every start takes a place again', async () => {
    const queue = makeQueue()
    await queue.addBulk(bulk(['a'], 4))
    const redis = openQueueConnection(connection())
    fixture.defer(() => {
      redis.close()
      return Promise.resolve()
    })
    for (const kind of ['line', 'parked']) {
      await redis.command('DEL', `${fixture.namespace}:{${named('a')}}:${kind}`)
    }
    const seen = await startWorkers(2)
    // Their long sleep stands in for the end of it.
    await queue.promoteJobs()
    await until('all are done', async () => (await queue.getCompletedCount()) === 4)
    expect(of(seen.runs, 'a').sort()).toEqual(upTo(4))
  })
})
