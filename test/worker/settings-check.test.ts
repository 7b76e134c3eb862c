/** What is reported when the processes of one queue have different settings. */
import { Worker } from 'bullmq'
import { expect, test } from 'vitest'
import {
  PlainWorkerError,
  Redlock,
  SettingsDifferError,
  silentLogger,
  type LockedQueue,
  type LockedQueueOptions,
  type LockedWorkerOptions,
} from '../../src/index.ts'
import { until, useFleet } from '../fixtures.ts'

interface Charge {
  readonly customer: number
}

const fixture = useFleet({ masters: 3 })

interface Reports {
  /** Of the `error` event. */
  readonly errors: Error[]
}

async function worker(
  options: Partial<LockedWorkerOptions<Charge>> = {},
  namespace: string = fixture.namespace,
): Promise<Reports & { readonly done: (string | undefined)[] }> {
  const redlock = await fixture.redlock({ namespace })
  const [errors, done]: [Error[], (string | undefined)[]] = [[], []]
  const made = fixture.lockedWorker<Charge>(({ id }) => Promise.resolve(done.push(id)), {
    ...{ redlock, resource: ({ data }) => `customer:${data.customer}`, ...options },
  })
  made.on('error', (error) => errors.push(error))
  await made.waitUntilReady()
  return { errors, done }
}

interface Producer extends Reports {
  readonly queue: LockedQueue<Charge>
}

function producer(options: Partial<LockedQueueOptions<Charge>> = {}): Producer {
  const errors: Error[] = []
  const resource = ({ customer }: Charge): string => `customer:${customer}`
  const queue = fixture.lockedQueue<Charge>({ resource, ...options })
  queue.on('error', (error) => errors.push(error))
  return { queue, errors }
}

/** Waits until one has written what it has. */
async function said(by: 'LockedQueue' | 'LockedWorker'): Promise<void> {
  const key = `bull:${fixture.namespace}:redlock:::settings`
  await until(`a ${by} has said it`, async () => (await fixture.redis().hexists(key, by)) === 1)
}

const two = [1, 1].map((customer) => ({ name: 'charge', data: { customer } }))

test('a queue and workers with equal settings report nothing, and other queues are not compared', async () => {
  const { queue, errors } = producer()
  await queue.addBulk(two)
  const first = await worker()
  const second = await worker()
  const elsewhere = fixture.lockedQueue<Charge>({ resource: () => 'a' }, 'elsewhere')
  elsewhere.on('error', (error) => errors.push(error))
  await elsewhere.add('charge', { customer: 1 })
  await until('both are done', () => first.done.length + second.done.length === 2)
  await queue.add('charge', { customer: 2 })
  expect([...errors, ...first.errors, ...second.errors]).toEqual([])
})

test('of two workers with different namespaces the second one reports it', async () => {
  const first = await worker()
  await said('LockedWorker')
  const { errors } = await worker({}, 'other')
  await until('the second says so', () => errors.length > 0)
  expect(errors[0]).toBeInstanceOf(SettingsDifferError)
  expect(errors[0]).toMatchObject({ code: 'SETTINGS_DIFFER', queue: fixture.namespace })
  expect(errors[0]?.message).toContain(
    `\`namespace\` is other in this LockedWorker and ${fixture.namespace} in a LockedWorker`,
  )
  expect(first.errors).toEqual([])
})

test('of a queue and a worker with different slots the second one reports it', async () => {
  const { queue, errors } = producer({ slots: 2 })
  await queue.add('charge', { customer: 1 })
  await said('LockedQueue')
  const { errors: found } = await worker()
  await until('the worker says so', () => found.length > 0)
  expect(found[0]?.message).toContain('`slots` is 1 in this LockedWorker and 2 in a LockedQueue')
  expect(errors).toEqual([])

  const late = producer({ slots: 2 })
  await late.queue.add('charge', { customer: 1 })
  await until('the queue says so', () => late.errors.length > 0)
  expect(late.errors[0]?.message).toContain(
    '`slots` is 2 in this LockedQueue and 1 in a LockedWorker',
  )
})

test('a queue that was obliterated still knows its worker', async () => {
  const { queue } = producer()
  await worker()
  await said('LockedWorker')
  await queue.obliterate({ force: true })
  await said('LockedWorker')
})

test('two workers with different slots report it', async () => {
  await worker({ slots: 1 })
  await said('LockedWorker')
  const { errors } = await worker({ slots: 2 })
  await until('the second says so', () => errors.length > 0)
  expect(errors[0]).toMatchObject({ differences: [{ name: 'slots', here: 2, there: 1 }] })
})

test('a deploy that changes a setting is reported by its first process alone', async () => {
  const { queue } = producer()
  await queue.add('charge', { customer: 1 })
  await said('LockedQueue')
  await worker()
  await said('LockedWorker')
  const first = await worker({ slots: 2 })
  await until('the first worker says so', () => first.errors.length > 0)
  const [second, late] = [await worker({ slots: 2 }), producer({ slots: 2 })]
  await late.queue.add('charge', { customer: 1 })
  await late.queue.close() // Waits for what it has found.
  expect([...first.errors.slice(1), ...second.errors, ...late.errors]).toEqual([])
})

test('a worker without order reports it; the jobs of a LockedQueue run all the same', async () => {
  const { queue } = producer()
  await queue.addBulk(two)
  const { errors, done } = await worker({ order: 'relaxed' })
  await until('it is reported', () => errors.length > 0)
  expect(errors[0]?.message).toContain(
    '`order` is relaxed in this LockedWorker and strict in a LockedQueue',
  )
  await until('both are done', () => done.length === 2)
})

test("a queue that names a resource differently from its workers: its jobs use the queue's name", async () => {
  const { queue } = producer({ resource: ({ customer }) => `account:${customer}` })
  await queue.addBulk(two)
  const { done } = await worker()
  await until('both are done', () => done.length === 2)
})

test('a producer that could not compare its settings does so with a later job', async () => {
  await worker()
  const { queue, errors } = producer({
    ...{ connection: { ...fixture.connection, maxRetriesPerRequest: 0 }, slots: 2 },
  })
  await queue.waitUntilReady()
  await fixture.fleet.queue.kill()
  await expect(queue.add('charge', { customer: 1 })).rejects.toThrow()
  expect(errors.filter((error) => error instanceof SettingsDifferError)).toEqual([])
  await fixture.fleet.queue.restart()
  await worker()
  await until('it is reported', async () => {
    await queue.add('charge', { customer: 1 }).catch(() => undefined) // Not connected yet.
    return errors.some((error) => error instanceof SettingsDifferError)
  })
})

test('a producer compares its settings with its first job, and not again with the next', async () => {
  await worker()
  await said('LockedWorker')
  const { queue, errors } = producer({ slots: 2 })
  await queue.add('charge', { customer: 1 })
  await until('it is reported', () => errors.length > 0)
  await queue.add('charge', { customer: 1 })
  await queue.close() // Waits for what it has found.
  expect(errors).toHaveLength(1)
})

test('a LockedQueue with plain workers reports it, and one with a LockedWorker does not', async () => {
  const { queue, errors } = producer()
  const { namespace, connection } = fixture
  const plain = fixture.closing(new Worker(namespace, () => Promise.resolve(), { connection }))
  await plain.waitUntilReady()
  await queue.addBulk(two)
  await until('it is reported', () => errors.some((error) => error instanceof PlainWorkerError))

  const late = producer()
  await worker()
  await late.queue.addBulk(two)
  await new Promise((resolve) => setTimeout(resolve, 1_500))
  expect(late.errors).toEqual([])
})

test("the queue's Redis among the lock masters is reported once", async () => {
  const said: object[] = []
  const logger = { ...silentLogger, warn: (fields: object): unknown => said.push(fields) }
  const { host, port } = fixture.fleet.queue
  for (const masters of [[`redis://localhost:${port}`], fixture.fleet.urls]) {
    const { namespace } = fixture
    const redlock = fixture.closing(new Redlock({ masters, namespace, logger: silentLogger }))
    await worker({ redlock, logger })
  }
  await until('it is said', () => said.length > 0)
  expect(host).toBe('127.0.0.1')
  const master = `localhost:${port}`
  expect(said).toEqual([{ event: 'queue:is-master', queue: fixture.namespace, master }])
})

test('an even number of masters is reported once', () => {
  const said: object[] = []
  const logger = { ...silentLogger, warn: (fields: object): unknown => said.push(fields) }
  for (const count of [2, 3]) {
    const masters = fixture.fleet.urls.slice(0, count)
    fixture.closing(new Redlock({ masters, namespace: fixture.namespace, logger }))
  }
  expect(said).toEqual([{ event: 'fleet:even', masters: 2 }])
})
