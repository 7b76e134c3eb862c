/** A job that has done its work passes its lease and its turn to the one behind it; what is passed is never more than that. */
import { describe, expect, test } from 'vitest'
import { systemClock } from '../../src/clock.ts'
import {
  LockedQueue,
  LockedWorker,
  type JobLease,
  type Observer,
  type Redlock,
  type Requeue,
} from '../../src/index.ts'
import { openQueueConnection } from '../../src/redis/queue-connection.ts'
import { Lines } from '../../src/worker/lines.ts'
import { QueueSide } from '../../src/worker/queue-side.ts'
import { admit } from '../../src/worker/admission.ts'
import { Relay, type Ending, type Passed } from '../../src/worker/relay.ts'
import type { Ticket } from '../../src/worker/ticket.ts'
import { granted, until, useFleet } from '../fixtures.ts'

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
  redlock?: Redlock,
): Promise<LockedWorker<Charge>> {
  const worker = new LockedWorker<Charge>(
    fixture.namespace,
    async (job, lease) => {
      await processor(job.data.nr, lease)
    },
    {
      connection: connection(),
      redlock: redlock ?? slowly(await fixture.redlock()),
      resource: (job) => job.data.customers,
      concurrency: 4,
    },
  )
  worker.on('error', () => undefined)
  fixture.defer(() => worker.close())
  return worker
}

/** What was handed over takes a moment to be released, as if the masters were far away. */
function slowly(redlock: Redlock): Redlock {
  const handOver = redlock.handOver.bind(redlock)
  redlock.handOver = async (lease, options) => {
    const outcome = await handOver(lease, options)
    if (outcome.status === 'granted') {
      const release = outcome.lease.release.bind(outcome.lease)
      outcome.lease.release = async () => {
        await pause(10)
        await release()
      }
    }
    return outcome
  }
  return redlock
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

  test('the masters are asked once for many jobs, as long as the lease is as good as new', async () => {
    const asked: string[] = []
    const observer: Observer = {
      opened: () => ({ voted: (_master, question) => asked.push(question) }),
    }
    const queue = makeQueue()
    const tokens: number[] = []
    const redlock = await fixture.redlock({ observer, leaseMs: 3_000 })
    await startWorker((_nr, lease) => void tokens.push(lease.fencingToken), redlock)
    await queue.addBulk(jobs(...Array.from({ length: 40 }, () => ['a'])))
    await until('all are done', async () => (await queue.getCompletedCount()) === 40)
    expect(tokens).toEqual([...new Set(tokens)].sort((x, y) => x - y))
    const acquisitions = asked.filter((question) => question === 'acquire').length / 3
    expect(acquisitions).toBeLessThan(5)
  })

  test('a job whose lease could not be handed over leaves its line by itself', async () => {
    const queue = makeQueue()
    const redlock = await fixture.redlock()
    redlock.handOver = async (lease) => {
      await lease.release()
      return { status: 'split', resource: lease.resource, answers: [] }
    }
    const started: number[] = []
    const worker = await startWorker((nr) => void started.push(nr), redlock)
    const requeued: string[] = []
    worker.on('requeued', (_job, { reason }) => requeued.push(reason))
    await queue.addBulk(jobs(...Array.from({ length: 10 }, () => ['a'])))
    await until('all are done', async () => (await queue.getCompletedCount()) === 10)
    expect(started).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    expect(requeued).toEqual([])
  })

  test('the first one knows who stands behind it', async () => {
    const queue = makeQueue()
    const tokens: number[] = []
    await queue.addBulk(jobs(['a'], ['a']))
    await startWorker(async (_nr, lease) => {
      tokens.push(lease.fencingToken)
      await pause(20)
    })
    await until('both are done', async () => (await queue.getCompletedCount()) === 2)
    expect(tokens[1]).toBe((tokens[0] ?? 0) + 1)
  })

  test('a job that was given to this worker has the lease of the one before it, however late it starts', async () => {
    const acquired: string[] = []
    const observer: Observer = {
      opened: () => ({ voted: (_master, question) => acquired.push(question) }),
    }
    const queue = makeQueue()
    const redlock = await fixture.redlock({ observer })
    const worker = await startWorker(() => undefined, redlock)
    // BullMQ's loop has a job that it was given, and waits for something else before it starts it.
    const loop = worker as unknown as { processJob: (...args: unknown[]) => Promise<unknown> }
    const processJob = loop.processJob.bind(worker)
    loop.processJob = async (...args) => {
      await pause(30)
      return processJob(...args)
    }
    await queue.addBulk(jobs(...Array.from({ length: 20 }, () => ['a'])))
    await until('all are done', async () => (await queue.getCompletedCount()) === 20)
    expect(acquired.filter((question) => question === 'acquire').length / 3).toBeLessThan(10)
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

test("a job that is done gives its resource back also while the queue's Redis is silent", async () => {
  const queue = makeQueue()
  const redlock = await fixture.redlock({ leaseMs: 3_000 })
  const other = await fixture.redlock({ leaseMs: 3_000 })
  const asked: string[] = []
  await startWorker(async (nr) => {
    asked.push(`job ${nr}`)
    // Before the question who follows has left.
    if (nr === 2) await fixture.fleet.queue.freeze()
  }, redlock)
  await queue.addBulk(jobs(['a'], ['a'], ['a'], ['a']))
  await until('it is frozen', () => asked.includes('job 2'))
  await (await other.acquire('a', { waitMs: 1_000 })).release()
  await fixture.fleet.queue.thaw()
  await until('all are done', async () => (await queue.getCompletedCount()) === 4)
})

describe('what nobody comes for is released', () => {
  test('also when the job that passed it is never noted as finished', async () => {
    const { other, relay, pass } = await aRelay()
    await pass()
    expect(await other.tryAcquire('a')).toMatchObject({ status: 'taken' })
    await (await other.acquire('a', { waitMs: 1_500 })).release()
    expect(relay.claim(nobody, ['a'])).toBeUndefined()
  })

  test('also when this worker was given the next job, and does not start it', async () => {
    const { other, relay, pass } = await aRelay()
    const ending = await pass()
    relay.fetched(nobody)
    void ending.finished()
    await (await other.acquire('a', { waitMs: 1_500 })).release()
    expect(relay.claim(nobody, ['a'])).toBeUndefined()
  })

  test('before the job that passed it leaves its line', async () => {
    const { other, pass } = await aRelay()
    const ending = await pass()
    expect(await ending.finished()).toBe(false)
    expect(await other.tryAcquire('a')).toMatchObject({ status: 'granted' })
  })
})

test.each(['before', 'after'])(
  'what this worker is going to start keeps its lease, given to it %s the end of the job ahead is noted',
  async (when) => {
    const { other, relay, pass } = await aRelay()
    const ending = await pass()
    if (when === 'before') relay.fetched(nobody)
    const passedTo = ending.finished()
    if (when === 'after') relay.fetched(nobody)
    await pause(50) // BullMQ's loop waits for an answer from the queue.
    expect(await other.tryAcquire('a')).toMatchObject({ status: 'taken' })
    const passed = relay.claim(nobody, ['a'])
    expect(await passed?.outcome).toMatchObject({ status: 'granted' })
    expect(passed?.from).toEqual(ahead)
    passed?.tookItOut(true)
    expect(await passedTo).toBe(true)
  },
)

test('whoever starts before the end of the job ahead is noted does not take it out of the line', async () => {
  const { relay, pass } = await aRelay()
  const ending = await pass()
  expect(relay.claim(nobody, ['a'])).toMatchObject({ from: undefined })
  void ending.finished()
})

describe('a job that was passed a lease', () => {
  test.each([
    { queue: 'answers', from: ahead, took: true, left: 1 },
    { queue: 'fails', from: ahead, took: false, left: 2 },
  ])(
    'says that it took the one before it out of the line only when it did: the queue $queue',
    async ({ queue, from, took, left }) => {
      const { admission, job, told, line } = await passedOn({ from, fails: queue === 'fails' })
      const outcome = await admit(admission, job, ['a'])
      expect(outcome.status).toBe('granted')
      expect(await told()).toBe(took)
      expect(await line.length('a')).toBe(left)
    },
  )

  test('releases it when the queue does not say whether it is its turn', async () => {
    const { admission, job, told, other } = await passedOn({ from: undefined, fails: true })
    await expect(admit(admission, job, ['a'])).rejects.toThrow('read-only')
    expect(await told()).toBe(false)
    expect(await other.tryAcquire('a')).toMatchObject({ status: 'granted' })
  })

  async function passedOn({ from, fails }: { from: Ticket | undefined; fails: boolean }) {
    const redlock = await fixture.redlock()
    const other = await fixture.redlock()
    const queue = makeQueue()
    const line = linesOf(queue)
    await line.join(['a'], ahead)
    const job = await queue.add('charge', { customers: ['a'], nr: 1 })
    const redis = openQueueConnection(connection())
    fixture.defer(() => {
      redis.close()
      return Promise.resolve()
    })
    if (fails) redis.run = () => Promise.reject(new Error('read-only'))
    const options = { namespace: fixture.namespace, slots: 1 }
    const lines = new Lines(redis, queue.getBackend(), options, systemClock)
    const lease = await granted(redlock, 'a')
    let done: boolean | Promise<boolean> | undefined
    const passed: Passed = {
      outcome: Promise.resolve({ status: 'granted', lease }),
      passedAt: systemClock.now(),
      from,
      tookItOut: (took) => {
        done = took
      },
    }
    const leaseOptions = { autoExtend: true }
    const reports = { misplaced: () => undefined }
    const admission = { locks: redlock, leaseOptions, lines, passed, clock: systemClock, reports }
    return { admission, job, told: async () => await done, line, other }
  }
})

test.each([
  { takenOut: true, left: 1 },
  { takenOut: false, left: 0 },
])(
  'a job leaves its line by itself unless the next one takes it out ($takenOut)',
  async ({ takenOut, left }) => {
    const queue = makeQueue()
    const job = await queue.add('charge', { customers: ['a'], nr: 0 })
    const side = new QueueSide<Charge>({
      connection: connection(),
      queue: { prefix: 'bull', queue: queue.name },
      clock: systemClock,
      backend: queue.getBackend(),
      nobodyElseWaits: () => false,
      namespace: fixture.namespace,
      slots: 1,
      resource: ({ data }) => data.customers,
      order: 'strict',
      onFailure: 'continue',
      checkpoints: false,
      maxValueBytes: 1_000,
      endingOf: () => ({ finished: () => Promise.resolve(takenOut) }),
      onError: () => undefined,
    })
    side.completed(job)
    await side.close(false)
    expect(await linesOf(queue).length('a')).toBe(left)
  },
)

test('a job whose turn comes while it starts elsewhere finds its resource free', async () => {
  const queue = makeQueue()
  const lines = linesOf(queue)
  const workers: LockedWorker<Charge>[] = []
  const requeued: Requeue['status'][] = []
  const sweeps: Promise<void>[] = []
  const crossing = async (nr: number): Promise<void> => {
    await pause(10)
    // This one takes no more: the next job starts at the other worker, while this lease is still kept here.
    const [here, there] = nr % 2 === 0 ? workers : [...workers].reverse()
    await there?.resume()
    await here?.pause(true)
  }
  for (let count = 0; count < 2; count++) {
    const worker = await startWorker(crossing)
    worker.on('requeued', (_job, { status }) => requeued.push(status))
    // Whoever sweeps at this very moment does not take it out of the line.
    worker.on('completed', () => sweeps.push(lines.repair('a', 1_000, false)))
    workers.push(worker)
  }
  await workers[1]?.pause(true)
  await queue.addBulk(jobs(...Array.from({ length: 20 }, () => ['a'])))
  await until('all are done', () => sweeps.length === 20)
  await Promise.all(sweeps)
  expect(requeued).toEqual([])
})

function linesOf(queue: LockedQueue<Charge>): Lines {
  const { namespace } = fixture
  const redis = openQueueConnection(connection())
  fixture.defer(() => {
    redis.close()
    return Promise.resolve()
  })
  return new Lines(redis, queue.getBackend(), { namespace, slots: 1 }, systemClock)
}

const nobody = { prefix: 'bull', queue: 'q', jobId: 'gone' }
const ahead = { prefix: 'bull', queue: 'q', jobId: 'done' }

interface ARelay {
  readonly other: Redlock
  readonly relay: Relay
  /** Passes a lease on `a` from `ahead` to nobody. */
  readonly pass: () => Promise<Ending>
}

async function aRelay(): Promise<ARelay> {
  const redlock = await fixture.redlock()
  const other = await fixture.redlock()
  const lines = linesOf(makeQueue())
  const relay = new Relay(slowly(redlock), { autoExtend: true }, systemClock)
  const pass = async (): Promise<Ending> => {
    const lease = await redlock.acquire('a')
    return relay.pass(ahead, 'a', lease, lines, { ticket: nobody, priority: 0 })
  }
  return { other, relay, pass }
}
