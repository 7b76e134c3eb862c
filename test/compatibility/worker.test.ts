/** The worker itself: starting, pausing, stopping, cancelling, limits, and fetching by hand. */
import { expect } from 'vitest'
import { differs, ours, refused, same, sameAndAsSoon, useSides } from './differential.ts'
import { fetched, pause, range, type Side, type WorkJob } from './side.ts'

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
    const queue = side.queue()
    await side.add(queue, 'a', [1])
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
  'concurrency can be changed at run time',
  async (side) => {
    const queue = side.queue()
    let [now, most] = [0, 0]
    const worker = side.worker(
      async () => {
        most = Math.max(most, ++now)
        await pause(40)
        now--
      },
      { concurrency: 1 },
    )
    for (const nr of range(1, 16)) await side.add(queue, `c${nr}`, [nr])
    await side.ended(2)
    const alone = most
    worker.concurrency = 3
    await side.ended(16)
    return { alone, most, concurrency: worker.concurrency }
  },
  { alone: 1, most: 3, concurrency: 3 },
)

same(
  'setGlobalConcurrency bounds all workers, and isMaxed says so',
  async (side) => {
    const queue = side.queue()
    await queue.setGlobalConcurrency(2)
    let [now, most] = [0, 0]
    const gate = side.gate()
    const process = async (): Promise<void> => {
      most = Math.max(most, ++now)
      await gate.passed
      await pause(10)
      now--
    }
    for (const concurrency of [3, 3]) side.worker(process, { concurrency })
    for (const nr of range(1, 6)) await side.add(queue, `c${nr}`, [nr])
    await side.until('two run', () => now === 2)
    await pause(100)
    const maxed = await queue.isMaxed()
    gate.open()
    await side.ended(6)
    const known = await queue.getGlobalConcurrency()
    await queue.removeGlobalConcurrency()
    return { most, maxed, known, after: await queue.getGlobalConcurrency() }
  },
  { most: 2, maxed: true, known: 2, after: null },
)

same(
  'global concurrency of one and two customers: every job runs, in order',
  async (side) => {
    const queue = side.queue()
    await queue.setGlobalConcurrency(1)
    await side.add(queue, 'a', range(1, 4))
    await side.add(queue, 'b', range(5, 8))
    side.worker(() => pause(2))
    await side.ended(8)
    return { a: side.orderOf('a'), b: side.orderOf('b') }
  },
  { a: range(1, 4), b: range(5, 8) },
)

sameAndAsSoon(
  'setGlobalRateLimit bounds the queue, and removeGlobalRateLimit lifts it',
  async (side) => {
    const queue = side.queue()
    await queue.setGlobalRateLimit(2, 300)
    await side.add(queue, 'a', range(1, 6))
    const from = performance.now()
    side.worker()
    await side.ended(6)
    const gapMs = performance.now() - from
    const limit = await queue.getGlobalRateLimit()
    await queue.removeGlobalRateLimit()
    return { order: side.order, limit, after: await queue.getGlobalRateLimit(), gapMs }
  },
  { order: range(1, 6), limit: { max: 2, duration: 300 }, after: null },
)

same(
  'queue.rateLimit, getRateLimitTtl and removeRateLimitKey',
  async (side) => {
    const queue = side.queue()
    await queue.rateLimit(60_000)
    const limited = (await queue.getRateLimitTtl()) > 0
    await side.add(queue, 'a', [1])
    const worker = side.worker(() => undefined, { limiter: { max: 5, duration: 1_000 } })
    await worker.waitUntilReady()
    await pause(150)
    const before = side.order
    await queue.removeRateLimitKey()
    return { limited, before, after: await queue.getRateLimitTtl() }
  },
  { limited: true, before: [], after: -2 },
)

same(
  'worker.pause, isPaused and resume',
  async (side) => {
    const queue = side.queue()
    const worker = side.worker()
    await side.add(queue, 'a', [1])
    await side.ended(1)
    await worker.pause()
    const paused = worker.isPaused()
    await side.add(queue, 'a', [2, 3])
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
    const queue = side.queue()
    const worker = side.worker(() => pause(100))
    await side.add(queue, 'a', [1, 2, 3])
    await side.started(1)
    await worker.pause()
    const ended = side.runs.filter(({ endedAt }) => endedAt !== undefined).length
    const other = side.worker()
    await side.ended(3)
    await other.close()
    return { ended, order: side.order, overlaps: side.overlaps }
  },
  { ended: 1, order: [1, 2, 3], overlaps: 0 },
)

same(
  'queue.pause, isPaused and resume: what waits in line stays, and goes on',
  async (side) => {
    const queue = side.queue()
    side.worker(() => pause(20))
    await side.add(queue, 'a', range(1, 6))
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
  'jobs that are added while the queue is paused run in order when it goes on',
  async (side) => {
    const queue = side.queue()
    side.worker()
    await queue.pause()
    await side.add(queue, 'a', range(1, 4))
    await queue.resume()
    await side.ended(4)
    return { order: side.order }
  },
  { order: range(1, 4) },
)

same(
  'worker.close waits for the running job',
  async (side) => {
    const queue = side.queue()
    const worker = side.worker(() => pause(150))
    const [job] = await side.add(queue, 'a', [1, 2])
    await side.started(1)
    await worker.close()
    return { order: side.order, state: await job?.getState(), running: worker.isRunning() }
  },
  { order: [1], state: 'completed', running: false },
)

same(
  'worker.close(true): the abandoned job runs again as soon as with BullMQ',
  async (side) => {
    const queue = side.queue()
    const gate = side.gate()
    const options = { lockDuration: 300, stalledInterval: 100 }
    const worker = side.worker(async (_, { signal }) => {
      await gate.passed
      signal.throwIfAborted()
    }, options)
    await side.add(queue, 'a', [1])
    await side.started(1)
    await worker.close(true)
    const from = performance.now()
    side.worker(() => undefined, options)
    await side.until('it runs again', () => side.runs.length === 2)
    return { order: side.order, soon: performance.now() - from < 1_800 }
  },
  { order: [1, 1], soon: true },
)

/** A worker that is gone with its leases while it runs job 1: those of its process end, as nothing extends them. */
async function deadWorker(side: Side): Promise<WorkJob | undefined> {
  const [queue, gate, redlock] = [side.queue(), side.gate(), await side.ownRedlock()]
  const worker = side.worker(() => gate.passed, { ...SOON, ours: { redlock } })
  const [job] = await side.add(queue, 'a', [1, 2])
  await side.started(1)
  await worker.close(true)
  await redlock.close()
  return job
}

const SOON = { lockDuration: 300, stalledInterval: 100 }

differs(
  'a job whose worker died runs again, and the customer’s others wait for it',
  async (side) => {
    await deadWorker(side)
    side.worker(() => undefined, SOON)
    await side.until('both ran', () => side.runs.length === 3, 6_000)
    return { order: side.order }
  },
  { bullmq: { order: [1, 2, 1] }, ours: { order: [1, 1, 2] } },
)

same(
  'stalledCounter, the stalled event and maxStalledCount',
  async (side) => {
    const job = await deadWorker(side)
    side.worker(() => undefined, { ...SOON, maxStalledCount: 0 })
    await side.until('it failed', async () => (await job?.getState()) === 'failed', 6_000)
    const { stalledCounter } = (await side.queue().getJob(job?.id ?? '')) ?? {}
    await side.until('the next one ran', () => side.order.includes(2), 6_000)
    return { stalledCounter, order: side.order }
  },
  { stalledCounter: 1, order: [1, 2] },
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
    await side.until('both ran', () => side.runs.length === 3, 6_000)
    return { stalled: stalled.map((id) => id === job?.id) }
  },
  { stalled: [true] },
)

same(
  'cancelJob and cancelAllJobs: the signal aborts with the reason',
  async (side) => {
    const queue = side.queue()
    const reasons: unknown[] = []
    const worker = side.worker(async (_, { signal }) => {
      await new Promise((resolve) => {
        signal.addEventListener('abort', resolve)
      })
      reasons.push(signal.reason)
      throw new Error('cancelled')
    })
    const [job] = await side.add(queue, 'a', [1, 2])
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

refused(
  'getNextJob of a LockedWorker is refused',
  async (side) => {
    await side.add(side.queue(), 'a', [1])
    const job = await fetched(
      side.worker(() => undefined, { autorun: false }),
      'one',
    )
    return { nr: job?.data.nr }
  },
  /without a lease.*redlock\.using/,
)

same(
  'getNextJob of a plain Worker and moveToCompleted: a worker goes on with the customer’s next job',
  async (side) => {
    await side.add(side.queue(), 'a', [1, 2, 3])
    const job = await fetched(side.plainWorker(), 'one')
    await job?.moveToCompleted('by hand', 'one', false)
    side.worker()
    await side.ended(2)
    return { nr: job?.data.nr, state: await job?.getState(), order: side.order }
  },
  { nr: 1, state: 'completed', order: [2, 3] },
)

same(
  'moveToFailed by hand, with attempts left and without: the customer’s next job runs',
  async (side) => {
    const queue = side.queue()
    await side.add(queue, 'a', [1], { attempts: 2 })
    const worker = side.plainWorker()
    const first = await fetched(worker, 'one')
    await first?.moveToFailed(new Error('on purpose'), 'one', false)
    const again = await first?.getState()
    const second = await fetched(worker, 'two')
    await second?.moveToFailed(new Error('on purpose'), 'two', false)
    await side.add(queue, 'a', [2])
    side.worker()
    await side.ended(1)
    return { again, last: await second?.getState(), made: second?.attemptsMade, order: side.order }
  },
  { again: 'waiting', last: 'failed', made: 2, order: [2] },
)

same(
  'extendLock and extendJobLocks with job.token',
  async (side) => {
    const queue = side.queue()
    const found: unknown[] = []
    const worker = side.worker(async (job, { token }) => {
      found.push(await job.extendLock(token, 5_000))
      found.push(await worker.extendJobLocks([job.id ?? ''], [token], 5_000))
    })
    await side.add(queue, 'a', [1])
    await side.ended(1)
    return { found }
  },
  { found: [1, []] },
)

same(
  'worker.on: ready, active, progress, completed, failed, drained, paused, resumed, closing, closed',
  async (side) => {
    const queue = side.queue()
    const seen: string[] = []
    const worker = side.worker(async (job) => {
      await job.updateProgress(7)
      if (job.data.nr === 2) throw new Error('on purpose')
      return 'done'
    })
    worker.on('ready', () => seen.push('ready'))
    worker.on('active', ({ data }, prev) => seen.push(`active ${data.nr} ${prev}`))
    worker.on('progress', ({ data }, progress) =>
      seen.push(`${data.nr} ${JSON.stringify(progress)}`),
    )
    worker.on('completed', ({ data }, result, prev) => {
      seen.push(`completed ${data.nr} ${String(result)} ${prev}`)
    })
    worker.on('failed', (job, error, prev) => {
      seen.push(`failed ${job?.data.nr ?? 0} ${error.message} ${prev}`)
    })
    let drained = 0
    worker.on('drained', () => drained++)
    worker.on('paused', () => seen.push('paused'))
    worker.on('resumed', () => seen.push('resumed'))
    worker.on('closing', () => seen.push('closing'))
    worker.on('closed', () => seen.push('closed'))
    await worker.waitUntilReady()
    await pause(50)
    await side.add(queue, 'a', [1, 2])
    await side.ended(2)
    await side.until('it was drained', () => drained > 0)
    await worker.pause()
    await worker.resume()
    await worker.close()
    return { seen }
  },
  {
    seen: [
      'ready',
      'active 1 waiting',
      '1 7',
      'completed 1 done active',
      'active 2 waiting',
      '2 7',
      'failed 2 on purpose active',
      'paused',
      'resumed',
      'closing',
      'closed',
    ],
  },
)

same(
  'locksRenewed is emitted while a job runs',
  async (side) => {
    const queue = side.queue()
    const gate = side.gate()
    const counts: number[] = []
    side
      .worker(() => gate.passed, { lockDuration: 400, lockRenewTime: 60 })
      .on('locksRenewed', ({ count }) => {
        counts.push(count)
        gate.open()
      })
    await side.add(queue, 'a', [1])
    await side.ended(1)
    return { first: counts[0] }
  },
  { first: 1 },
)

same(
  'worker.name is shown by the job as processedBy',
  async (side) => {
    const queue = side.queue()
    side.worker(() => undefined, { name: 'mine' })
    const [job] = await side.add(queue, 'a', [1])
    await side.until('it is done', async () => (await queue.getCompletedCount()) === 1)
    const done = await queue.getJob(job?.id ?? '')
    return { by: done?.processedBy, hasTimes: (done?.finishedOn ?? 0) >= (done?.processedOn ?? 1) }
  },
  { by: 'mine', hasTimes: true },
)

same(
  'a prefix of its own for queue and worker',
  async (side) => {
    const queue = side.queue({ prefix: 'mine' })
    side.worker(() => undefined, { prefix: 'mine' })
    await side.add(queue, 'a', [1, 2, 3])
    await side.ended(3)
    return { order: side.order, key: queue.toKey('x') === `mine:${side.queueName}:x` }
  },
  { order: [1, 2, 3], key: true },
)

same(
  'removeOnComplete and removeOnFail of the worker',
  async (side) => {
    const queue = side.queue()
    side.worker(
      ({ data }) => {
        if (data.nr % 2 === 0) throw new Error('on purpose')
      },
      { removeOnComplete: { count: 1 }, removeOnFail: { count: 0 } },
    )
    await side.add(queue, 'a', range(1, 6))
    await side.ended(6)
    await side.until('none is active', async () => (await queue.getActiveCount()) === 0)
    return { counts: await queue.getJobCounts('completed', 'failed') }
  },
  { counts: { completed: 1, failed: 0 } },
)

same(
  'defaultJobOptions of the queue: attempts, priority and delay',
  async (side) => {
    const queue = side.queue({ defaultJobOptions: { attempts: 4, priority: 2, delay: 50 } })
    side.worker()
    const [job] = await side.add(queue, 'a', [1, 2])
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
    await side.add(queue, 'a', [1, 2])
    await side.until('both are done', async () => (await queue.getCompletedCount()) === 2)
    const count = (name: string): number => spans.filter((span) => span.startsWith(name)).length
    return { add: count('add q'), process: count('process q') }
  },
  { add: 2, process: 2 },
)

same(
  'the result of a job is what its processor returned',
  async (side) => {
    const queue = side.queue()
    side.worker(({ data }) => ({ of: data.nr }))
    const events = await side.events()
    const jobs = await side.add(queue, 'a', [1, 2])
    const results = await Promise.all(jobs.map((job) => job.waitUntilFinished(events, 4_000)))
    const done = await queue.getJob(jobs[1]?.id ?? '')
    return { results, stored: done?.returnvalue }
  },
  { results: [{ of: 1 }, { of: 2 }], stored: { of: 2 } },
)

same(
  'updateData that changes the customer: the next job of the first customer starts in order',
  async (side) => {
    const queue = side.queue()
    side.worker(async (job) => {
      if (job.data.nr === 1) await job.updateData({ customer: 'b', nr: 1 })
    })
    await side.add(queue, 'a', [1, 2])
    await side.ended(2, 1_000)
    return { order: side.order }
  },
  { order: [1, 2] },
)

same(
  'updateData that removes the customer: the retry runs under the same lease',
  async (side) => {
    const queue = side.queue()
    side.worker(
      async (job) => {
        if (job.attemptsMade > 0 || job.data.nr !== 1) return pause(60)
        await job.updateData({ step: 'charged', nr: 1 } as never)
        throw new Error('on purpose')
      },
      { ours: { order: 'relaxed' } },
    )
    await side.add(queue, 'a', [1, 2, 3], { attempts: 2 })
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
        await Promise.race([
          gate.passed,
          new Promise((_resolve, reject) => {
            signal.addEventListener('abort', () => {
              reject(signal.reason as Error)
            })
          }),
        ])
      },
      { ours: { redlock } },
    )
    const [job] = await side.add(queue, 'a', [1])
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
