/**
 * What becomes of the jobs when a resource function is wrong, or servers are missing: none is lost
 * and none spins.
 */
import { Queue, type Job } from 'bullmq'
import { expect, it } from 'vitest'
import {
  LockedWorker,
  QueueUnreachableError,
  Redlock,
  type ResourceOf,
  silentLogger,
} from '../../src/index.ts'
import { startServer } from '../../src/testing/index.ts'
import { until, useFleet } from '../fixtures.ts'
import { Harness } from '../hazards/harness.ts'
import { assertNoLeaks } from '../support/leaks.ts'

assertNoLeaks()
const fixture = useFleet({ masters: 3 })

interface Bench extends AsyncDisposable {
  readonly queue: Queue
  readonly worker: LockedWorker<unknown, string>
  /** How often each job was started, by the worker's own `active` events. */
  readonly activations: Map<string, number>
  readonly ran: string[]
  readonly errors: Error[]
}

async function bench(name: string, redlock: Redlock, resource: ResourceOf): Promise<Bench> {
  const connection = { host: fixture.fleet.queue.host, port: fixture.fleet.queue.port }
  const queue = new Queue(name, { connection })
  const activations = new Map<string, number>()
  const ran: string[] = []
  const errors: Error[] = []
  const process = (job: Job): Promise<string> => {
    ran.push(job.id ?? '')
    return Promise.resolve('done')
  }
  const worker = new LockedWorker(name, process, { connection, redlock, resource, concurrency: 5 })
  worker.on('active', ({ id = '' }) => activations.set(id, (activations.get(id) ?? 0) + 1))
  worker.on('error', (error) => errors.push(error))
  await queue.waitUntilReady()
  return {
    queue,
    worker,
    activations,
    ran,
    errors,
    async [Symbol.asyncDispose](): Promise<void> {
      await worker.close()
      await queue.obliterate({ force: true })
      await queue.close()
    },
  }
}

const NO_SUCH = 'no such customer'
const wrongResources: readonly (readonly [wrong: () => unknown, problem: string])[] = [
  [() => undefined, 'returned undefined'],
  [() => 42, 'returned a number'],
  [() => [], 'returned an empty list'],
  [() => [[]], 'returned an array'],
  [() => ['a', ''], 'returned an empty string'],
  [() => '', 'returned an empty string'],
  [() => 'x'.repeat(513), 'returned 513 characters'],
  [() => Promise.resolve('r'), 'returned a promise'],
  [() => Promise.reject(new Error(NO_SUCH)), 'returned a promise'],
  [() => thrown(new RangeError(NO_SUCH)), `threw "${NO_SUCH}"`],
  [() => thrown(NO_SUCH), `threw "${NO_SUCH}"`],
]

function thrown(value: unknown): never {
  throw value
}

it('a wrong resource function: each job fails with that, after its attempts; others run', async () => {
  await using harness = await Harness.open(fixture.fleet)
  const redlock = await harness.client({ direct: true })
  const resource = ({ data }: Job<number>): unknown =>
    wrongResources[data]?.[0]() ?? (data in wrongResources ? undefined : 'customer:1')
  await using jobs = await bench(harness.namespace, redlock, resource as ResourceOf)
  const bad = await jobs.queue.addBulk(
    wrongResources.map((_, data) => ({ name: 'bad', data, opts: { attempts: 3 } })),
  )
  const good = await jobs.queue.add('good', -1)
  await until('all jobs are finished', async () => {
    const counts = [jobs.queue.getFailedCount(), jobs.queue.getCompletedCount()]
    return (await Promise.all(counts)).join() === `${wrongResources.length},1`
  })
  for (const [index, { id = '' }] of bad.entries()) {
    const failed = await jobs.queue.getJob(id)
    const [, problem = ''] = wrongResources[index] ?? []
    expect(failed?.failedReason).toContain(`\`resource\` ${problem} for job ${id}`)
    expect(failed?.failedReason).toContain('it must return a string of 1 to 512 characters')
    expect(failed?.failedReason).toContain('`customer:42`')
    expect(failed?.attemptsMade).toBe(3)
    expect(jobs.activations.get(id)).toBe(3)
  }
  expect(jobs.ran).toEqual([good.id])
  expect(redlock.status().leases).toBe(0)
})

it.concurrent(
  'a queue whose Redis does not answer: the worker reports it, and continues when it answers',
  async () => {
    await using harness = await Harness.open(fixture.fleet)
    await using away = await startServer({ name: 'queue-away' })
    await away.kill()
    const connection = { host: away.host, port: away.port }
    const redlock = await harness.client({ direct: true })
    const errors: Error[] = []
    const worker = new LockedWorker(harness.namespace, () => Promise.resolve('done'), {
      connection,
      redlock,
      resource: () => 'customer:1',
    })
    worker.on('error', (error) => errors.push(error))
    const said = (): Error | undefined =>
      errors.find((error) => error instanceof QueueUnreachableError)
    await until('it is said', () => said() !== undefined)
    expect(said()?.message).toContain(
      `The Redis of queue \`${harness.namespace}\` has not answered for`,
    )
    expect(said()?.message).toContain('check `connection`')
    expect(said()?.message).toContain('no job is lost')

    await away.restart()
    const queue = new Queue(harness.namespace, { connection })
    const job = await queue.add('charge', {})
    await until('the job is done', async () => job.isCompleted())
    await worker.close()
    await queue.close()
  },
)

it.concurrent('a queue whose Redis speaks no TLS: the worker says what to write', async () => {
  await using harness = await Harness.open(fixture.fleet)
  const redlock = await harness.client({ direct: true })
  const worker = new LockedWorker(harness.namespace, () => Promise.resolve('done'), {
    connection: { url: fixture.fleet.queue.url.replace('redis:', 'rediss:') },
    ...{ redlock, resource: () => 'customer:1' },
  })
  const errors: Error[] = []
  worker.on('error', (error) => errors.push(error))
  const said = (): Error | undefined =>
    errors.find((error) => error instanceof QueueUnreachableError)
  await until('it is said', () => said() !== undefined)
  expect(said()?.message).toContain('the server speaks no TLS on this port: use `redis://`')
  await worker.close()
})

it('a worker whose Redlock was closed requeues its jobs without an attempt', async () => {
  await using harness = await Harness.open(fixture.fleet)
  const redlock = new Redlock({
    masters: fixture.fleet.urls,
    namespace: harness.namespace,
    logger: silentLogger,
  })
  await redlock.ready()
  await using jobs = await bench(harness.namespace, redlock, () => 'customer:1')
  const first = await jobs.queue.add('charge', {})
  await until('the first job is done', async () => first.isCompleted())
  await redlock.close()
  const second = await jobs.queue.add('charge', {})
  await until('it was given back', async () => second.isDelayed())
  const given = await jobs.queue.getJob(second.id ?? '')
  expect(given?.attemptsMade).toBe(0)
})
