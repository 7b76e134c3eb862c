/**
 * What is written as for BullMQ: processors, options; and BullMQ's worker beside our queue.
 */
import { fileURLToPath } from 'node:url'
import { DelayedError, Worker } from 'bullmq'
import { lockedProcessor, LockedWorker } from '../../src/index.ts'
import { differs, ours, refused, same, useSides } from './differential.ts'
import './drop-in-types.ts'
import { pause, range, type Process, type Side, type Work, type WorkJob } from './side.ts'

useSides()

type Processor = (job: WorkJob, second: unknown, third: unknown) => Promise<unknown>

/** A worker with a processor that is called as the class calls it. */
function bareWorker(side: Side, processor: Processor): Worker<Work> {
  const { connection, redlock, queueName } = side
  const worker: Worker<Work> = side.isOurs
    ? new LockedWorker<Work>(queueName, processor as never, {
        connection,
        redlock,
        resource: ({ data }) => side.resourceOf(data.customer),
      })
    : new Worker<Work>(queueName, processor, { connection })
  worker.on('error', () => undefined)
  side.defer(() => worker.close())
  return worker
}

same(
  'the second parameter of a processor stands for the token in BullMQ’s own methods',
  async (side) => {
    const found: unknown[] = []
    bareWorker(side, async (job, token) => {
      if (found.length > 0) return
      found.push(await job.extendLock(token as string, 5_000))
      await job.moveToDelayed(Date.now() + 50, token as string)
      found.push('moved')
      throw new DelayedError()
    })
    const [job] = await side.add('a', [1])
    await side.completed(1)
    return { found, token: typeof job?.id }
  },
  { found: [1, 'moved'], token: 'string' },
)

differs(
  'typeof of the second parameter of a processor',
  async (side) => {
    let found: unknown
    bareWorker(side, (_, second) => {
      found = [typeof second, typeof String(second)]
      return Promise.resolve()
    })
    await side.add('a', [1])
    await side.completed(1)
    return { found }
  },
  { bullmq: { found: ['string', 'string'] }, ours: { found: ['object', 'string'] } },
)

same(
  'the third parameter of a processor is the signal',
  async (side) => {
    const found: unknown[] = []
    bareWorker(side, (_, __, third) => {
      found.push(third instanceof AbortSignal)
      return Promise.resolve()
    })
    await side.add('a', [1])
    await side.completed(1)
    return { found }
  },
  { found: [true] },
)

differs(
  'every job has a signal, also where its processor takes no third parameter',
  async (side) => {
    const started = side.gate()
    const ended = side.gate()
    const ofTwo = bareWorker(side, async (_, second) => {
      started.open()
      await ended.passed
      return String(second)
    })
    const [job] = await side.add('a', [1])
    await started.passed
    const cancelled = ofTwo.cancelJob(job?.id ?? '')
    ended.open()
    const ofThree = bareWorker(side, (_, __, third) => Promise.resolve(third))
    return { cancelled, asked: [asksBullmqForSignals(ofTwo), asksBullmqForSignals(ofThree)] }
  },
  {
    bullmq: { cancelled: false, asked: [false, true] },
    ours: { cancelled: true, asked: [false, false] },
  },
)

function asksBullmqForSignals(worker: Worker): boolean {
  return (worker as unknown as { processorAcceptsSignal: boolean }).processorAcceptsSignal
}

const FILE = fileURLToPath(import.meta.url)

refused(
  'a sandboxed processor is refused',
  async (side) => {
    const worker: Worker = side.isOurs
      ? new LockedWorker(side.queueName, FILE as never, {
          connection: side.connection,
          redlock: side.redlock,
          resource: () => 'x',
        })
      : new Worker(side.queueName, FILE, { connection: side.connection, autorun: false })
    worker.on('error', () => undefined)
    side.defer(() => worker.close())
    return Promise.resolve({})
  },
  /sandboxed.*lease/,
)

refused(
  'a worker without a processor is refused',
  (side) => {
    const { queueName, connection, redlock } = side
    const worker: Worker = side.isOurs
      ? new LockedWorker(queueName, null as never, { connection, redlock, resource: () => 'x' })
      : new Worker(queueName, null, { connection })
    side.defer(() => worker.close())
    return Promise.resolve({})
  },
  /`processor` to be a function/,
)

refused(
  'an option of the worker that does not exist is refused',
  (side) => {
    side.worker(() => undefined, { concurency: 3 } as object)
    return Promise.resolve({})
  },
  /concurency/,
)

refused(
  'an option of the queue that does not exist is refused',
  (side) => {
    side.queue({ defaultJobOption: {} } as object)
    return Promise.resolve({})
  },
  /defaultJobOption/,
)

refused(
  'a resource that is made of an undefined value is refused when the job is added',
  async (side) => {
    const queue = side.queue({
      ours: { resource: ({ step }) => `customer:${String(step)}` },
    })
    await side.addTo(queue, 'a', [1])
    return {}
  },
  /undefined/,
)

same(
  'lockedProcessor in a plain Worker: no two jobs of a customer at once, and every job runs',
  async (side) => {
    const { connection, redlock, queueName } = side
    const queue = side.plainQueue()
    const runs: Process = () => pause(5)
    if (side.isOurs) {
      const seen = { now: 0 }
      const processor = lockedProcessor<Work>(
        redlock,
        { resource: ({ data }) => side.resourceOf(data.customer) },
        async ({ data: { customer, nr } }) => {
          const run = {
            customer,
            nr,
            startedAt: performance.now(),
            endedAt: undefined as number | undefined,
          }
          side.runs.push(run)
          seen.now++
          await pause(5)
          run.endedAt = performance.now()
        },
      )
      const worker = new Worker<Work>(queueName, processor, { connection, concurrency: 3 })
      worker.on('error', () => undefined)
      side.defer(() => worker.close())
    } else side.worker(runs)
    await side.addTo(queue, 'a', range(1, 5))
    await side.ended(5)
    return { ran: side.ran, overlaps: side.overlaps }
  },
  { ran: range(1, 5), overlaps: 0 },
)

ours(
  'checkpoints: a step’s result comes back as JSON keeps it, a Date as a string',
  async (side) => {
    const found: unknown[] = []
    const worker = new LockedWorker<Work>(
      side.queueName,
      async (job, lease) => {
        const at = await lease.step('now', () => new Date(0))
        found.push(typeof at)
        if (job.attemptsMade === 0) throw new Error('on purpose')
      },
      {
        connection: side.connection,
        redlock: side.redlock,
        resource: ({ data }) => side.resourceOf(data.customer),
        checkpoints: true,
      },
    )
    side.defer(() => worker.close())
    await side.add('a', [1], { attempts: 2 })
    await side.until('it ran twice', () => found.length === 2)
    return { found }
  },
  { found: ['string', 'string'] },
)
