/** A job that has done its work passes its lease and its turn to the one behind it; what is passed is never more than that. */
import { describe, expect, test } from 'vitest'
import { systemClock } from '../../src/clock.ts'
import { LockedQueue, LockedWorker, type JobLease } from '../../src/index.ts'
import { openQueueConnection } from '../../src/redis/queue-connection.ts'
import { Lines } from '../../src/worker/lines.ts'
import { Relay } from '../../src/worker/relay.ts'
import { until, useFleet } from '../fixtures.ts'

interface Charge {
  readonly customers: readonly string[]
  readonly nr: number
}

const fixture = useFleet({ masters: 3 })
const connection = (): { host: string; port: number } => ({
  host: fixture.fleet.queue.host,
  port: fixture.fleet.queue.port,
})

function makeQueue(): LockedQueue<Charge> {
  const queue = new LockedQueue<Charge>(fixture.namespace, {
    connection: connection(),
    resource: ({ customers }) => customers,
    namespace: fixture.namespace,
  })
  fixture.defer(() => queue.close())
  return queue
}

async function startWorker(
  processor: (nr: number, lease: JobLease) => Promise<void> | void,
): Promise<LockedWorker<Charge>> {
  const worker = new LockedWorker<Charge>(
    fixture.namespace,
    async (job, lease) => {
      await processor(job.data.nr, lease)
    },
    {
      connection: connection(),
      redlock: await fixture.redlock(),
      resource: (job) => job.data.customers,
      concurrency: 4,
    },
  )
  worker.on('error', () => undefined)
  fixture.defer(() => worker.close())
  return worker
}

const jobs = (...customers: string[][]): { name: string; data: Charge }[] =>
  customers.map((names, nr) => ({ name: 'charge', data: { customers: names, nr } }))

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

describe('along a line', () => {
  test('every job has a fencing token of its own, larger than the one before', async () => {
    const queue = makeQueue()
    const tokens: number[] = []
    await startWorker(async (_nr, lease) => {
      tokens.push(lease.fencingToken)
      await pause(5)
      expect(lease.signal.aborted).toBe(false)
    })
    await queue.addBulk(jobs(...Array.from({ length: 12 }, () => ['a'])))
    await until('all are done', async () => (await queue.getCompletedCount()) === 12)
    expect(tokens).toEqual([...new Set(tokens)].sort((x, y) => x - y))
    expect(tokens).toHaveLength(12)
  })

  test('a job that touches more than the one before it does not run under that lease', async () => {
    const queue = makeQueue()
    const other = await fixture.redlock()
    const elsewhere = await other.acquire('b', { autoExtend: true })
    const started: number[] = []
    await startWorker(async (nr) => {
      started.push(nr)
      await pause(20)
    })
    // The second asleep job is woken and passed to by the first one, which was asleep too.
    await queue.addBulk(jobs(['a'], ['a'], ['a', 'b'], ['a']))
    await until('two are done', async () => (await queue.getCompletedCount()) === 2)
    await pause(300)
    expect(started).toEqual([0, 1])
    await elsewhere.release()
    await until('all are done', async () => (await queue.getCompletedCount()) === 4)
    expect(started).toEqual([0, 1, 2, 3])
  })

  test('a job that fails passes nothing: it is retried before the next one runs', async () => {
    const queue = makeQueue()
    const started: number[] = []
    await startWorker((nr) => {
      started.push(nr)
      if (nr === 2 && started.filter((one) => one === 2).length < 3) throw new Error('declined')
    })
    await queue.addBulk(
      jobs(['a'], ['a'], ['a'], ['a'], ['a']).map((job) => ({
        ...job,
        opts: { attempts: 3, backoff: { type: 'fixed', delay: 30 } },
      })),
    )
    await until('all are done', async () => (await queue.getCompletedCount()) === 5)
    expect(started).toEqual([0, 1, 2, 2, 2, 3, 4])
  })
})

test('what nobody comes for is released', async () => {
  const queue = makeQueue()
  const redlock = await fixture.redlock()
  const other = await fixture.redlock()
  const redis = openQueueConnection(connection())
  fixture.defer(() => {
    redis.close()
    return Promise.resolve()
  })
  const { namespace } = fixture
  const lines = new Lines(redis, queue.getBackend(), { namespace, slots: 1 }, systemClock)
  const relay = new Relay(redlock, { autoExtend: true }, systemClock)
  const lease = await redlock.acquire('a')
  const nobody = { prefix: 'bull', queue: queue.name, jobId: 'gone' }
  relay.pass('a', lease, lines, { ticket: nobody, priority: 0 })
  expect(await other.tryAcquire('a')).toMatchObject({ status: 'taken' })
  await (await other.acquire('a', { waitMs: 1_500 })).release()
  expect(relay.claim(nobody, ['a'])).toBeUndefined()
})
