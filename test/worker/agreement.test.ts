/** What happens, and what is said, when those who work on one queue do not agree. */
import { expect, test } from 'vitest'
import {
  LockedQueue,
  LockedWorker,
  SettingsDifferError,
  silentLogger,
  type LockedQueueOptions,
  type LockedWorkerOptions,
  type Logger,
} from '../../src/index.ts'
import { openQueueConnection } from '../../src/redis/queue-connection.ts'
import { FakeClock } from '../../src/testing/index.ts'
import type { Timer } from '../../src/clock.ts'
import { Agreement, termsKey } from '../../src/worker/agreement.ts'
import { QueueSide } from '../../src/worker/queue-side.ts'
import { until, useFleet } from '../fixtures.ts'

interface Charge {
  readonly customer: number
}

const fixture = useFleet({ masters: 3 })

function connection(): { host: string; port: number } {
  return { host: fixture.fleet.queue.host, port: fixture.fleet.queue.port }
}

interface Reports {
  /** Of the `error` event. */
  readonly errors: Error[]
  /** Of the log: event and fix. */
  readonly misplaced: string[]
}

function logInto(misplaced: string[]): Logger {
  const warn = ({ event, job, fix }: { event?: string; job?: string; fix?: string }): void => {
    if (event === 'job:misplaced') misplaced.push(`${job ?? ''}: ${fix ?? ''}`)
  }
  return { ...silentLogger, warn }
}

async function worker(
  options: Partial<LockedWorkerOptions<Charge>> = {},
  namespace: string = fixture.namespace,
): Promise<Reports & { readonly done: (string | undefined)[] }> {
  const redlock = await fixture.redlock({ namespace })
  const [errors, misplaced, done]: [Error[], string[], (string | undefined)[]] = [[], [], []]
  const made = new LockedWorker<Charge>(
    fixture.namespace,
    ({ id }) => Promise.resolve(done.push(id)),
    {
      ...{ connection: connection(), redlock, logger: logInto(misplaced) },
      resource: ({ data }) => `customer:${data.customer}`,
      ...options,
    },
  )
  made.on('error', (error) => errors.push(error))
  fixture.defer(() => made.close())
  await made.waitUntilReady()
  return { errors, misplaced, done }
}

interface Producer extends Pick<Reports, 'errors'> {
  readonly queue: LockedQueue<Charge>
}

function producer(options: Partial<LockedQueueOptions<Charge>> = {}): Producer {
  const errors: Error[] = []
  const queue = new LockedQueue<Charge>(fixture.namespace, {
    ...{ connection: connection(), namespace: fixture.namespace },
    resource: ({ customer }) => `customer:${customer}`,
    ...options,
  })
  queue.on('error', (error) => errors.push(error))
  fixture.defer(() => queue.close())
  return { queue, errors }
}

const two = [
  { name: 'charge', data: { customer: 1 } },
  { name: 'charge', data: { customer: 1 } },
]

test('a queue and workers that agree say nothing, and nobody compares other queues', async () => {
  const { queue, errors } = producer()
  await queue.addBulk(two)
  const first = await worker()
  const second = await worker()
  const elsewhere = new LockedQueue<Charge>('elsewhere', {
    ...{ connection: connection(), namespace: 'another', resource: () => 'a' },
  })
  elsewhere.on('error', (error) => errors.push(error))
  fixture.defer(() => elsewhere.close())
  await elsewhere.add('charge', { customer: 1 })
  await until('both are done', () => first.done.length + second.done.length === 2)
  await queue.add('charge', { customer: 2 })
  expect([...errors, ...first.errors, ...second.errors]).toEqual([])
  expect([...first.misplaced, ...second.misplaced]).toEqual([])
})

test('of a queue and a worker with different namespaces the second one says so, whichever it is', async () => {
  const { queue, errors } = producer({ namespace: 'other' })
  await queue.add('charge', { customer: 1 })
  const { errors: found } = await worker()
  await until('the worker says so', () => found.length > 0)
  expect(found[0]).toBeInstanceOf(SettingsDifferError)
  expect(found[0]).toMatchObject({ code: 'SETTINGS_DIFFER', queue: fixture.namespace })
  expect(found[0]?.message).toContain(
    `\`namespace\` is ${fixture.namespace} in this LockedWorker and other in a LockedQueue`,
  )
  expect(errors).toEqual([])

  const late = producer({ namespace: 'other' })
  await late.queue.add('charge', { customer: 1 })
  await until('the queue says so', () => late.errors.length > 0)
  expect(late.errors[0]?.message).toContain(
    `\`namespace\` is other in this LockedQueue and ${fixture.namespace} in a LockedWorker`,
  )
})

test('two workers with different slots say so', async () => {
  await worker({ slots: 1 })
  const redis = openQueueConnection(connection())
  fixture.defer(() => {
    redis.close()
    return Promise.resolve()
  })
  const key = termsKey({ prefix: 'bull', queue: fixture.namespace })
  await until('the first has said it', async () => (await redis.command('EXISTS', key)) === 1)
  const { errors } = await worker({ slots: 2 })
  await until('the second says so', () => errors.length > 0)
  expect(errors[0]).toMatchObject({ differences: [{ name: 'slots', here: 2, there: 1 }] })
})

test('a worker that wakes nobody says so, and again for each job that slept', async () => {
  const { queue } = producer()
  const [, asleep] = await queue.addBulk(two)
  const { errors, misplaced, done } = await worker({ order: 'relaxed' })
  await until('it says so', () => errors.length > 0)
  expect(errors[0]?.message).toContain(
    '`order` is relaxed in this LockedWorker and strict in a LockedQueue',
  )
  await until('the first one is done', () => done.length === 1)
  expect(misplaced).toEqual([])
  await asleep?.promote()
  await until('the second one is done', () => done.length === 2)
  expect(misplaced).toEqual([expect.stringMatching(/^2: .*order 'strict'/)])
})

test('a queue that names a resource otherwise than its workers: their jobs go on, and it is said', async () => {
  const { queue } = producer({ resource: ({ customer }) => `account:${customer}` })
  await queue.addBulk(two)
  const { misplaced, done } = await worker()
  await until('both are done', () => done.length === 2)
  expect(misplaced).toEqual([expect.stringMatching(/^2: .*the same `resource`/)])
})

/** Knows which timers were started and have neither run nor been cancelled. */
class CountedClock extends FakeClock {
  readonly waiting = new Set<object>()

  override after(delayMs: number, run: () => void): Timer {
    const timer = super.after(delayMs, () => {
      this.waiting.delete(timer)
      run()
    })
    this.waiting.add(timer)
    return {
      cancel: () => {
        this.waiting.delete(timer)
        timer.cancel()
      },
    }
  }
}

test('a worker says it again every minute, until it is closed', async () => {
  const clock = new CountedClock()
  const errors: unknown[] = []
  const side = (slots: number): QueueSide<Charge> =>
    new QueueSide<Charge>({
      ...{ connection: connection(), queue: { prefix: 'bull', queue: fixture.namespace } },
      ...{ clock, slots, namespace: fixture.namespace, order: 'relaxed', onFailure: 'continue' },
      ...{
        checkpoints: false,
        maxValueBytes: 1,
        resource: () => 'r',
        nobodyElseWaits: () => false,
      },
      backend: { forQueue: () => Promise.reject(new Error('not asked')) as never },
      endingOf: () => undefined,
      onError: (error) => errors.push(error),
    })
  const sides = [side(1), side(2)]
  for (let minute = 0; minute < 3; minute++) {
    await until('both have said it', () => clock.waiting.size === 2)
    if (minute > 0) expect(errors.splice(0)).toHaveLength(2)
    errors.length = 0
    await clock.advance(60_000)
  }
  await until('both have said it', () => clock.waiting.size === 2)
  await Promise.all(sides.map((each) => each.close(false)))
  expect(clock.waiting.size).toBe(0)
})

test('a producer that could not say it says it with a later job', async () => {
  await worker()
  const { queue, errors } = producer({
    ...{ connection: { ...connection(), enableOfflineQueue: false }, slots: 2 },
  })
  const add = (): Promise<unknown> => queue.add('charge', { customer: 1 })
  await expect(add()).rejects.toThrow('enableOfflineQueue')
  await until('it says so', async () => {
    await add().catch(() => undefined) // It may still not be connected.
    return errors.some((error) => error instanceof SettingsDifferError)
  })
})

test('a job that was added with a delay of ten minutes is in its place', async () => {
  const { queue } = producer()
  const { misplaced, done } = await worker()
  const job = await queue.add('charge', { customer: 1 }, { delay: 600_000 })
  await job.promote()
  await until('it is done', () => done.length === 1)
  expect(misplaced).toEqual([])
})

test('what somebody said counts as long as a job may sleep, and is said once a minute', async () => {
  const redis = openQueueConnection(connection())
  fixture.defer(() => {
    redis.close()
    return Promise.resolve()
  })
  const clock = new FakeClock()
  const one = { by: 'LockedWorker', namespace: 'n', order: 'strict', slots: 1 } as const
  const at = { prefix: 'bull', queue: fixture.namespace }
  const said = new Agreement(redis, at, one, clock)
  const other = new Agreement(redis, at, { ...one, slots: 2 }, clock)
  expect(await said.exchange()).toEqual([])
  expect(await other.exchange()).toHaveLength(1)
  await clock.advance(59_000)
  expect(await other.exchange()).toEqual([])
  await clock.advance(1_000)
  expect(await other.exchange()).toHaveLength(1)
  await clock.advance(599_000)
  expect(await other.exchange()).toHaveLength(1)
  await clock.advance(61_000)
  expect(await other.exchange()).toEqual([])
  expect(await redis.command('ZCARD', termsKey(at))).toBe(1)
})
