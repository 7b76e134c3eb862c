/** The worker itself: starting, pausing, stopping, dying, cancelling, and its options. */
import { once } from 'node:events'
import { expect } from 'vitest'
import { differs, ours, refused, same, sameAndAsSoon, useSides } from './differential.ts'
import { aborted } from '../fixtures.ts'
import { pause, range, type Side, type WorkJob } from './side.ts'

useSides()

same(
  'run a second time throws, and isRunning is true from the start',
  async (side) => {
    const worker = side.worker()
    const running = worker.isRunning()
    const refusal = await worker.run().then(
      () => 'accepted',
      (error: unknown) => (error as Error).message,
    )
    return { running, refusal }
  },
  { running: true, refusal: 'Worker is already running.' },
)

same(
  'autorun: false: nothing is fetched until run is called',
  async (side) => {
    await side.add('a', [1])
    const worker = side.worker(() => undefined, { autorun: false })
    await worker.waitUntilReady()
    await pause(100)
    const before = { running: worker.isRunning(), order: side.order }
    void worker.run()
    await side.ended(1)
    return { before, order: side.order, running: worker.isRunning() }
  },
  { before: { running: false, order: [] }, order: [1], running: true },
)

same(
  'worker.pause, isPaused and resume',
  async (side) => {
    const worker = side.worker()
    await side.add('a', [1])
    await side.ended(1)
    await worker.pause()
    const paused = worker.isPaused()
    await side.add('a', [2, 3])
    await pause(150)
    const before = side.order
    await worker.resume()
    await side.ended(3)
    return { paused, before, order: side.order, after: worker.isPaused() }
  },
  { paused: true, before: [1], order: [1, 2, 3], after: false },
)

same(
  'worker.pause waits for the running job, and the customer’s next one is left for others',
  async (side) => {
    const gate = side.gate()
    // A slot that waits for a job when the worker is paused still takes one, in BullMQ too.
    const worker = side.worker(() => gate.passed, { concurrency: 1 })
    await side.add('a', [1, 2, 3])
    await side.started(1)
    const pausing = worker.pause()
    gate.open()
    await pausing
    const ended = side.runs.filter(({ endedAt }) => endedAt !== undefined).length
    const other = side.worker()
    await side.ended(3)
    await other.close()
    return { ended, order: side.order, overlaps: side.overlaps }
  },
  { ended: 1, order: [1, 2, 3], overlaps: 0 },
)

differs(
  'worker.pause ends when the worker is resumed while a job runs',
  async (side) => {
    const gate = side.gate()
    const worker = side.worker(() => gate.passed)
    await side.add('a', [1])
    await side.started(1)
    const pausing = worker.pause().then(() => 'ended')
    await worker.resume()
    const ended = await Promise.race([pausing, pause(1_000).then(() => 'waits')])
    gate.open()
    await side.ended(1)
    return { pause: ended, paused: worker.isPaused() }
  },
  { bullmq: { pause: 'waits', paused: false }, ours: { pause: 'ended', paused: false } },
)

same(
  'queue.pause, isPaused and resume: what waits in line stays, and continues',
  async (side) => {
    const queue = side.queue()
    side.worker(() => pause(20))
    await side.addTo(queue, 'a', range(1, 6))
    await side.ended(2)
    await queue.pause()
    const paused = await queue.isPaused()
    await pause(120)
    const before = side.order.length
    await pause(120)
    const stands = side.order.length === before
    await queue.resume()
    await side.ended(6)
    return { paused, stands, order: side.order, after: await queue.isPaused() }
  },
  { paused: true, stands: true, order: range(1, 6), after: false },
)

same(
  'worker.close waits for the running job',
  async (side) => {
    const gate = side.gate()
    const worker = side.worker(() => gate.passed, { concurrency: 1 })
    const [job] = await side.add('a', [1, 2])
    await side.started(1)
    const closing = worker.close()
    gate.open()
    await closing
    return { order: side.order, state: await job?.getState(), running: worker.isRunning() }
  },
  { order: [1], state: 'completed', running: false },
)

differs(
  'options of a worker that are undefined: the defaults count',
  async (side) => {
    const none = { lockDuration: undefined, stalledInterval: undefined, autorun: undefined }
    side.worker(() => undefined, none as object)
    await side.add('a', [1])
    return side.orderAfter(1)
  },
  { bullmq: { threw: 'stalledInterval must be greater than 0' }, ours: { order: [1] } },
)

sameAndAsSoon(
  'worker.close(true): the abandoned job runs again as soon as with BullMQ',
  async (side) => {
    const gate = side.gate()
    const options = { lockDuration: 500, stalledInterval: 100 }
    const worker = side.worker(() => gate.passed, options)
    await side.add('a', [1])
    await side.started(1)
    await worker.close(true)
    const from = performance.now()
    side.worker(() => undefined, options)
    await side.until('it runs again', () => side.runs.length === 2)
    return { order: side.order, gapMs: performance.now() - from }
  },
  { order: [1, 1] },
)

differs(
  'worker.close(true) while an active job waits for its lease: the job stalls, or goes back',
  async (side) => {
    const gate = side.gate()
    const held = side.isOurs ? await side.redlock.acquire(side.resourceOf('a')) : undefined
    const worker = side.worker(() => gate.passed, SOON)
    const active = once(worker, 'active')
    await side.add('a', [1])
    await active
    await pause(50) // The masters have answered: it waits for the release.
    await worker.close(true)
    await held?.release()
    let stalled = 0
    const next = side.worker(() => undefined, SOON)
    next.on('stalled', () => stalled++)
    await side.completed(1)
    return { order: side.order, stalled }
  },
  { bullmq: { order: [1, 1], stalled: 1 }, ours: { order: [1], stalled: 0 } },
)

/**
 * A worker that is gone with its leases while it runs job 1: those of its process end, as nothing
 * extends them.
 */
async function deadWorker(side: Side): Promise<WorkJob | undefined> {
  const [queue, gate, redlock] = [side.queue(), side.gate(), await side.ownRedlock()]
  const worker = side.worker(() => gate.passed, { ...SOON, ours: { redlock } })
  const [job] = await side.addTo(queue, 'a', [1, 2])
  await side.started(1)
  await worker.close(true)
  await redlock.close()
  return job
}

const SOON = { lockDuration: 1_000, stalledInterval: 150 }

differs(
  'a job whose worker died runs again, and the customer’s others wait for it',
  async (side) => {
    await deadWorker(side)
    side.worker(() => undefined, SOON)
    await side.until('both ran', () => side.runs.length === 3)
    return { order: side.order }
  },
  { bullmq: { order: [1, 2, 1] }, ours: { order: [1, 1, 2] } },
)

same(
  'stalledCounter, the stalled event and maxStalledCount',
  async (side) => {
    const job = await deadWorker(side)
    side.worker(() => undefined, { ...SOON, maxStalledCount: 0 })
    await side.until('it failed', async () => (await job?.getState()) === 'failed')
    const { stalledCounter } = (await side.queue().getJob(job?.id ?? '')) ?? {}
    await side.until('the next one ran', () => side.order.includes(2))
    // On a busy machine the worker that fails it may be late, and it stalls once more.
    return { hasStalled: (stalledCounter ?? 0) > 0, order: side.order }
  },
  { hasStalled: true, order: [1, 2] },
)

same(
  'the stalled event names a job whose worker died',
  async (side) => {
    const job = await deadWorker(side)
    const stalled: string[] = []
    side
      .worker(() => undefined, SOON)
      .on('stalled', (id) => {
        stalled.push(id)
      })
    await side.until('both ran', () => side.runs.length === 3)
    return { stalled: stalled.map((id) => id === job?.id) }
  },
  { stalled: [true] },
)

differs(
  'concurrency: jobs of one customer run one at a time, those of two customers together',
  async (side) => {
    const most = { a: 0, all: 0 }
    const running: string[] = []
    await side.add('a', [1, 2, 3])
    await side.add('b', [4])
    side.worker(
      async ({ data }) => {
        running.push(data.customer)
        most.a = Math.max(most.a, running.filter((customer) => customer === 'a').length)
        most.all = Math.max(most.all, running.length)
        await pause(300)
        running.splice(running.indexOf(data.customer), 1)
      },
      { concurrency: 4 },
    )
    await side.ended(4)
    return most
  },
  { bullmq: { a: 3, all: 4 }, ours: { a: 1, all: 2 } },
)

differs(
  'each job takes its lease before its processor starts',
  async (side) => {
    const held: boolean[] = []
    side.worker(async ({ data }) => {
      const { holder } = await side.redlock.inspect(side.resourceOf(data.customer))
      held.push(holder !== undefined)
    })
    await side.add('a', [1])
    await side.add('b', [2])
    await side.ended(2)
    return { held }
  },
  { bullmq: { held: [false, false] }, ours: { held: [true, true] } },
)

same(
  'cancelJob and cancelAllJobs: the signal aborts with the reason',
  async (side) => {
    const reasons: unknown[] = []
    const worker = side.worker(async (_, { signal }) => {
      reasons.push(await aborted(signal))
      throw new Error('cancelled')
    })
    const [job] = await side.add('a', [1, 2])
    await side.started(1)
    const known = worker.cancelJob(job?.id ?? '', 'no longer needed')
    const unknown = worker.cancelJob('none')
    await side.started(2)
    worker.cancelAllJobs('all')
    await side.ended(2)
    return { known, unknown, reasons }
  },
  { known: true, unknown: false, reasons: ['no longer needed', 'all'] },
)

same(
  'worker.name is shown by the job as processedBy',
  async (side) => {
    side.worker(() => undefined, { name: 'mine' })
    const [job] = await side.add('a', [1])
    await side.completed(1)
    const done = await side.own.getJob(job?.id ?? '')
    return { by: done?.processedBy, hasTimes: (done?.finishedOn ?? 0) >= (done?.processedOn ?? 1) }
  },
  { by: 'mine', hasTimes: true },
)

same(
  'its own prefix for queue and worker',
  async (side) => {
    const queue = side.queue({ prefix: 'mine' })
    side.worker(() => undefined, { prefix: 'mine' })
    await side.addTo(queue, 'a', [1, 2, 3])
    await side.ended(3)
    return { order: side.order, key: queue.toKey('x') === `mine:${side.queueName}:x` }
  },
  { order: [1, 2, 3], key: true },
)

same(
  'removeOnComplete and removeOnFail of the worker',
  async (side) => {
    side.worker(
      ({ data }) => {
        if (data.nr % 2 === 0) throw new Error('on purpose')
      },
      { removeOnComplete: { count: 1 }, removeOnFail: { count: 0 } },
    )
    await side.add('a', range(1, 6))
    await side.ended(6)
    await side.until('none is active', async () => (await side.own.getActiveCount()) === 0)
    return { counts: await side.own.getJobCounts('completed', 'failed') }
  },
  { counts: { completed: 1, failed: 0 } },
)

same(
  'defaultJobOptions of the queue: attempts, priority and delay',
  async (side) => {
    const queue = side.queue({ defaultJobOptions: { attempts: 4, priority: 2, delay: 50 } })
    side.worker()
    const [job] = await side.addTo(queue, 'a', [1, 2])
    await side.ended(2)
    return { attempts: job?.opts.attempts, priority: job?.opts.priority, ran: side.ran }
  },
  { attempts: 4, priority: 2, ran: [1, 2] },
)

same(
  'telemetry: a span for each add and each process',
  async (side) => {
    const spans: string[] = []
    const telemetry = {
      tracer: {
        startSpan: (name: string) => {
          spans.push(name.replace(side.queueName, 'q'))
          return {
            setSpanOnContext: (context: unknown) => context,
            addEvent: () => undefined,
            setAttribute: () => undefined,
            setAttributes: () => undefined,
            recordException: () => undefined,
            end: () => undefined,
          }
        },
      },
      contextManager: {
        with: (_: unknown, run: () => unknown) => run(),
        active: () => ({}),
        getMetadata: () => '',
        fromMetadata: () => ({}),
      },
    }
    const queue = side.queue({ telemetry: telemetry as never })
    side.worker(() => undefined, { telemetry: telemetry as never })
    for (const customer of ['a', 'b']) await side.addTo(queue, customer, [1])
    await side.until('both are done', async () => (await queue.getCompletedCount()) === 2)
    const count = (name: string): number => spans.filter((span) => span.startsWith(name)).length
    return { add: count('add q'), process: count('process q') }
  },
  { add: 2, process: 2 },
)

same(
  'the result of a job is what its processor returned',
  async (side) => {
    side.worker(({ data }) => ({ of: data.nr }))
    const events = await side.events()
    const jobs = await side.add('a', [1, 2])
    const results = await Promise.all(jobs.map((job) => job.waitUntilFinished(events, 10_000)))
    const done = await side.own.getJob(jobs[1]?.id ?? '')
    return { results, stored: done?.returnvalue }
  },
  { results: [{ of: 1 }, { of: 2 }], stored: { of: 2 } },
)

same(
  'updateData that changes the customer: the next job of the first customer starts in order',
  async (side) => {
    side.worker(async (job) => {
      if (job.data.nr === 1) await job.updateData({ customer: 'b', nr: 1 })
    })
    await side.add('a', [1, 2])
    await side.ended(2, 1_000)
    return { order: side.order }
  },
  { order: [1, 2] },
)

same(
  'updateData that removes the customer: the retry runs under the same lease',
  async (side) => {
    side.worker(
      async (job) => {
        if (job.attemptsMade > 0 || job.data.nr !== 1) return pause(60)
        await job.updateData({ step: 'charged', nr: 1 } as never)
        throw new Error('on purpose')
      },
      { ours: { order: 'relaxed' } },
    )
    await side.add('a', [1, 2, 3], { attempts: 2 })
    await side.ended(4)
    // The retry has no customer in its data; it must not run beside the others all the same.
    const times = side.runs.toSorted((a, b) => a.startedAt - b.startedAt)
    const beside = times.filter(
      (run, index) => index > 0 && run.startedAt < (times[index - 1]?.endedAt ?? 0),
    )
    return { beside: beside.length, ran: side.ran }
  },
  { beside: 0, ran: [1, 1, 2, 3] },
)

refused(
  'maxStartedAttempts is refused',
  async (side) => {
    const worker = side.worker(() => undefined, { maxStartedAttempts: 3 })
    await worker.waitUntilReady()
    return {}
  },
  /maxStartedAttempts.*attempts/,
)

refused(
  'skipLockRenewal is refused',
  async (side) => {
    const worker = side.worker(() => undefined, { skipLockRenewal: true })
    await worker.waitUntilReady()
    return {}
  },
  /skipLockRenewal/,
)

ours(
  'redlock.close while a job runs gives it back, and no attempt is used',
  async (side) => {
    const queue = side.queue()
    const [redlock, gate] = [await side.ownRedlock(), side.gate()]
    const worker = side.worker(
      async (_, { signal }) => {
        await Promise.race([gate.passed, aborted(signal)])
        signal.throwIfAborted()
      },
      { ours: { redlock } },
    )
    const [job] = await side.addTo(queue, 'a', [1])
    await side.started(1)
    await redlock.close()
    await side.ended(1)
    await worker.close()
    const { attemptsMade, failedReason } = (await queue.getJob(job?.id ?? '')) ?? {}
    expect(await job?.getState()).not.toBe('failed')
    return { attemptsMade, failedReason }
  },
  { attemptsMade: 0, failedReason: undefined },
)
