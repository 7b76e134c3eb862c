/** In which order the jobs of a customer run: priorities, delays, retries, and what a job does to itself. */
import { DelayedError, UnrecoverableError, WaitingError, Worker } from 'bullmq'
import { differs, same, useSides } from './differential.ts'
import { pause, range } from './side.ts'

useSides()

const BY_PRIORITY = { ours: { within: 'priority' } as object }

differs(
  'priorities within a customer: the order of adding wins',
  async (side) => {
    const queue = side.queue()
    await side.add(queue, 'a', [1], { priority: 5 })
    await side.add(queue, 'a', [2], { priority: 1 })
    await side.add(queue, 'a', [3])
    side.worker()
    await side.ended(3)
    return { order: side.order }
  },
  { bullmq: { order: [3, 2, 1] }, ours: { order: [1, 2, 3] } },
)

same(
  'within: "priority": priorities within a customer mean what they mean in BullMQ',
  async (side) => {
    const queue = side.queue(BY_PRIORITY)
    const gate = side.gate()
    side.worker(async ({ data }) => {
      if (data.nr === 0) await gate.passed
    })
    await side.add(queue, 'a', [0])
    await side.started(0)
    await side.add(queue, 'a', [1], { priority: 5 })
    await side.add(queue, 'a', [2], { priority: 1 })
    await side.add(queue, 'a', [3], { priority: 5 })
    await side.add(queue, 'a', [4])
    gate.open()
    await side.ended(5)
    return { order: side.order }
  },
  { order: [0, 4, 2, 1, 3] },
)

same(
  'within: "priority": the order of jobs that were added before any worker started',
  async (side) => {
    const queue = side.queue(BY_PRIORITY)
    await side.add(queue, 'a', [1], { priority: 5 })
    await side.add(queue, 'a', [2], { priority: 1 })
    await side.add(queue, 'a', [3])
    side.worker()
    await side.ended(3)
    return { order: side.order }
  },
  { order: [3, 2, 1] },
)

same(
  'within: "priority": changePriority of a job that waits in line',
  async (side) => {
    const queue = side.queue(BY_PRIORITY)
    const gate = side.gate()
    side.worker(async ({ data }) => {
      if (data.nr === 0) await gate.passed
    })
    await side.add(queue, 'a', [0])
    await side.started(0)
    const jobs = await side.add(queue, 'a', [1, 2, 3], { priority: 5 })
    await jobs[2]?.changePriority({ priority: 1 })
    gate.open()
    await side.ended(4)
    return { order: side.order }
  },
  { order: [0, 3, 1, 2] },
)

same(
  'priorities between customers mean what they mean in BullMQ',
  async (side) => {
    const queue = side.queue()
    await side.add(queue, 'a', [1], { priority: 5 })
    await side.add(queue, 'b', [2], { priority: 1 })
    await side.add(queue, 'c', [3], { priority: 3 })
    await side.add(queue, 'd', [4])
    side.worker(() => undefined, { concurrency: 1 })
    await side.ended(4)
    return { order: side.order }
  },
  { order: [4, 2, 3, 1] },
)

same(
  'changePriority of a job that waits in line counts against other customers',
  async (side) => {
    const queue = side.queue()
    const gate = side.gate()
    side.worker(
      async ({ data }) => {
        if (data.nr === 0) await gate.passed
      },
      { concurrency: 1 },
    )
    await side.add(queue, 'a', [0])
    await side.started(0)
    const [job] = await side.add(queue, 'a', [1], { priority: 9 })
    await side.add(queue, 'b', [2], { priority: 5 })
    await side.add(queue, 'c', [3], { priority: 3 })
    await job?.changePriority({ priority: 1 })
    const { priority } = (await queue.getJob(job?.id ?? '')) ?? {}
    gate.open()
    await side.ended(4)
    return { order: side.order, priority }
  },
  { order: [0, 1, 3, 2], priority: 1 },
)

same(
  'a job that waited in line shows the priority, delay and options that it was given',
  async (side) => {
    const queue = side.queue()
    await side.add(queue, 'a', [1])
    const [job] = await side.add(queue, 'a', [2], { priority: 7, attempts: 3, jobId: 'j' })
    const waiting = await queue.getJob(job?.id ?? '')
    side.worker()
    await side.ended(2)
    await side.until('both are done', async () => (await queue.getCompletedCount()) === 2)
    const done = await queue.getJob(job?.id ?? '')
    const shown = (one: typeof done): object => ({
      priority: one?.priority,
      delay: one?.delay ?? 0,
      opts: {
        priority: one?.opts.priority,
        delay: one?.opts.delay ?? 0,
        attempts: one?.opts.attempts,
      },
    })
    return { added: shown(job), waiting: shown(waiting), done: shown(done) }
  },
  {
    added: { priority: 7, delay: 0, opts: { priority: 7, delay: 0, attempts: 3 } },
    waiting: { priority: 7, delay: 0, opts: { priority: 7, delay: 0, attempts: 3 } },
    done: { priority: 7, delay: 0, opts: { priority: 7, delay: 0, attempts: 3 } },
  },
)

differs(
  'lifo within a customer: the order of adding wins',
  async (side) => {
    const queue = side.queue()
    await side.add(queue, 'a', [1, 2])
    await side.add(queue, 'a', [3], { lifo: true })
    side.worker()
    await side.ended(3)
    return { order: side.order }
  },
  { bullmq: { order: [3, 1, 2] }, ours: { order: [1, 2, 3] } },
)

same(
  'within: "priority": lifo within a customer means what it means in BullMQ',
  async (side) => {
    const queue = side.queue(BY_PRIORITY)
    const gate = side.gate()
    side.worker(async ({ data }) => {
      if (data.nr === 0) await gate.passed
    })
    await side.add(queue, 'a', [0])
    await side.started(0)
    await side.add(queue, 'a', [1, 2])
    await side.add(queue, 'a', [3], { lifo: true })
    gate.open()
    await side.ended(4)
    return { order: side.order }
  },
  { order: [0, 3, 1, 2] },
)

same(
  'lifo between customers means what it means in BullMQ',
  async (side) => {
    const queue = side.queue()
    await side.add(queue, 'a', [1])
    await side.add(queue, 'b', [2])
    await side.add(queue, 'c', [3], { lifo: true })
    side.worker(() => undefined, { concurrency: 1 })
    await side.ended(3)
    return { order: side.order }
  },
  { order: [3, 1, 2] },
)

same(
  'a delayed job runs when it is due, and holds up nothing until then',
  async (side) => {
    const queue = side.queue()
    side.worker()
    await side.add(queue, 'a', [1], { delay: 600 })
    await side.add(queue, 'a', [2, 3])
    await side.ended(3)
    return { order: side.order }
  },
  { order: [2, 3, 1] },
)

same(
  'changeDelay of a delayed job',
  async (side) => {
    const queue = side.queue()
    const [job] = await side.add(queue, 'a', [1], { delay: 3_600_000 })
    await side.add(queue, 'a', [2])
    await job?.changeDelay(100)
    side.worker()
    await side.ended(2)
    return { order: side.order }
  },
  { order: [2, 1] },
)

same(
  'changeDelay and promote of a job that waits in line are refused, as of any that waits',
  async (side) => {
    const queue = side.queue()
    const jobs = await side.add(queue, 'a', [1, 2])
    const refusals = await Promise.all(
      jobs
        .flatMap((job) => [job.changeDelay(50), job.promote()])
        .map((refusal) =>
          refusal.then(
            () => 'accepted',
            (error: unknown) => (error as Error).message.replace(/\d+/, 'N'),
          ),
        ),
    )
    side.worker()
    await side.ended(2)
    return { refusals, order: side.order }
  },
  {
    refusals: [
      'Job N is not in the delayed state. changeDelay',
      'Job N is not in the delayed state. promote',
      'Job N is not in the delayed state. changeDelay',
      'Job N is not in the delayed state. promote',
    ],
    order: [1, 2],
  },
)

same(
  'promote of a delayed job',
  async (side) => {
    const queue = side.queue()
    const [job] = await side.add(queue, 'a', [1], { delay: 3_600_000 })
    await job?.promote()
    await side.add(queue, 'a', [2])
    side.worker()
    await side.ended(2)
    return { order: side.order }
  },
  { order: [1, 2] },
)

same(
  'promoteJobs wakes delayed jobs, and those that wait in line keep their order',
  async (side) => {
    const queue = side.queue()
    await side.add(queue, 'a', range(1, 4))
    await side.add(queue, 'a', [5], { delay: 3_600_000 })
    await queue.promoteJobs()
    const counts = await queue.getJobCounts('waiting', 'delayed')
    side.worker()
    await side.ended(5)
    return { counts, order: side.order }
  },
  { counts: { waiting: 5, delayed: 0 }, order: [1, 2, 3, 4, 5] },
)

same(
  'addBulk adds in order, for every customer',
  async (side) => {
    const queue = side.queue()
    side.worker()
    const jobs = range(1, 12).map((nr) => ({
      name: 'work',
      data: { customer: ['a', 'b', 'c'][nr % 3] ?? '', nr },
    }))
    const added = await queue.addBulk(jobs)
    await side.ended(12)
    return {
      added: added.map(({ data }) => data.nr),
      a: side.orderOf('a'),
      b: side.orderOf('b'),
      c: side.orderOf('c'),
      overlaps: side.overlaps,
    }
  },
  {
    added: range(1, 12),
    a: [3, 6, 9, 12],
    b: [1, 4, 7, 10],
    c: [2, 5, 8, 11],
    overlaps: 0,
  },
)

differs(
  'a retry with backoff: the customer’s other jobs wait for it',
  async (side) => {
    const queue = side.queue()
    side.worker((job) => {
      if (job.data.nr === 1 && job.attemptsMade === 0) throw new Error('on purpose')
    })
    await side.add(queue, 'a', [1, 2], { attempts: 2, backoff: 150 })
    await side.ended(3)
    return { order: side.order }
  },
  { bullmq: { order: [1, 2, 1] }, ours: { order: [1, 1, 2] } },
)

differs(
  'a retry without backoff runs at once, before the customer’s other jobs',
  async (side) => {
    const queue = side.queue()
    await side.add(queue, 'a', [1, 2], { attempts: 2 })
    side.worker((job) => {
      if (job.data.nr === 1 && job.attemptsMade === 0) throw new Error('on purpose')
    })
    await side.ended(3)
    return { order: side.order }
  },
  { bullmq: { order: [1, 2, 1] }, ours: { order: [1, 1, 2] } },
)

same(
  'order: "relaxed": a retry with backoff lets others pass',
  async (side) => {
    const queue = side.plainQueue()
    await side.add(queue, 'a', [1, 2], { attempts: 2, backoff: 600 })
    side.worker(
      (job) => {
        if (job.data.nr === 1 && job.attemptsMade === 0) throw new Error('on purpose')
      },
      { ours: { order: 'relaxed' }, concurrency: 1 },
    )
    await side.ended(3)
    return { order: side.order }
  },
  { order: [1, 2, 1] },
)

same(
  'attempts, attemptsMade, attemptsStarted and failedReason of a job that fails for good',
  async (side) => {
    const queue = side.queue()
    side.worker(({ data }) => {
      if (data.nr === 2) throw new Error('on purpose')
    })
    const [, job] = await side.add(queue, 'a', [1, 2, 3], { attempts: 3 })
    await side.ended(5)
    await side.until('it failed', async () => (await queue.getFailedCount()) === 1)
    const { attemptsMade, attemptsStarted, failedReason, stacktrace } =
      (await queue.getJob(job?.id ?? '')) ?? {}
    return { attemptsMade, attemptsStarted, failedReason, traces: stacktrace?.length }
  },
  { attemptsMade: 3, attemptsStarted: 3, failedReason: 'on purpose', traces: 3 },
)

same(
  'settings.backoffStrategy is asked, and the job runs again',
  async (side) => {
    const queue = side.queue()
    const asked: unknown[] = []
    side.worker(
      (job) => {
        if (job.attemptsMade < 2) throw new Error('on purpose')
      },
      {
        settings: {
          backoffStrategy: (attemptsMade, type, error) => {
            asked.push([attemptsMade, type, error?.message])
            return 20
          },
        },
      },
    )
    await side.add(queue, 'a', [1], { attempts: 3, backoff: { type: 'mine' } })
    await side.ended(3)
    return { asked }
  },
  {
    asked: [
      [1, 'mine', 'on purpose'],
      [2, 'mine', 'on purpose'],
    ],
  },
)

same(
  'UnrecoverableError ends a job without another attempt',
  async (side) => {
    const queue = side.queue()
    side.worker(({ data }) => {
      if (data.nr === 1) throw new UnrecoverableError('no use')
    })
    await side.add(queue, 'a', [1, 2], { attempts: 5 })
    await side.ended(2)
    await side.until('it failed', async () => (await queue.getFailedCount()) === 1)
    return { order: side.order }
  },
  { order: [1, 2] },
)

differs(
  'moveToDelayed and DelayedError: the customer’s other jobs wait for it',
  async (side) => {
    const queue = side.queue()
    await side.add(queue, 'a', [1, 2])
    side.worker(async (job, { token }) => {
      if (job.data.nr === 1 && job.data.step === undefined) {
        await job.updateData({ ...job.data, step: 'again' })
        await job.moveToDelayed(Date.now() + 150, token)
        throw new DelayedError()
      }
    })
    await side.ended(3)
    const [first] = await queue.getCompleted()
    return { order: side.order, attemptsMade: first?.attemptsMade }
  },
  {
    bullmq: { order: [1, 2, 1], attemptsMade: 1 },
    ours: { order: [1, 1, 2], attemptsMade: 1 },
  },
)

same(
  'moveToWait and WaitingError: the job runs again at once',
  async (side) => {
    const queue = side.queue()
    await side.add(queue, 'a', [1, 2])
    side.worker(async (job, { token }) => {
      if (job.data.nr === 1 && job.data.step === undefined) {
        await job.updateData({ ...job.data, step: 'again' })
        await job.moveToWait(token)
        throw new WaitingError()
      }
    })
    await side.ended(3)
    return { order: side.order }
  },
  { order: [1, 1, 2] },
)

same(
  'queue.rateLimit and RateLimitError: the job runs again, no attempt is used',
  async (side) => {
    const queue = side.queue()
    await side.add(queue, 'a', [1, 2])
    let limited = 0
    side.worker(
      async ({ data }) => {
        if (data.nr === 1 && limited++ === 0) {
          await queue.rateLimit(200)
          throw Worker.RateLimitError()
        }
      },
      { limiter: { max: 100, duration: 500 } },
    )
    await side.ended(3)
    await side.until('both are done', async () => (await queue.getCompletedCount()) === 2)
    const made = (await queue.getCompleted()).map(({ attemptsMade }) => attemptsMade)
    return { order: side.order, made }
  },
  { order: [1, 1, 2], made: [1, 1] },
)

same(
  'job.retry of a failed job puts it behind those that wait',
  async (side) => {
    const queue = side.queue()
    const gate = side.gate()
    let fails = true
    side.worker(async ({ data }) => {
      if (data.nr === 1 && fails) throw new Error('on purpose')
      if (data.nr === 2) await gate.passed
    })
    const [job] = await side.add(queue, 'a', [1, 2, 3])
    await side.started(2)
    fails = false
    await job?.retry()
    gate.open()
    await side.ended(4)
    return { order: side.order }
  },
  { order: [1, 2, 3, 1] },
)

same(
  'retryJobs runs all that failed again, in their order',
  async (side) => {
    const queue = side.queue()
    let fails = true
    side.worker(() => {
      if (fails) throw new Error('on purpose')
    })
    await side.add(queue, 'a', range(1, 3))
    await side.until('all failed', async () => (await queue.getFailedCount()) === 3)
    fails = false
    await queue.retryJobs()
    await side.ended(6)
    await side.until('all are done', async () => (await queue.getCompletedCount()) === 3)
    return { order: side.order, overlaps: side.overlaps }
  },
  { order: [1, 2, 3, 1, 2, 3], overlaps: 0 },
)

same(
  'retryJobs of completed jobs runs them again',
  async (side) => {
    const queue = side.queue()
    side.worker()
    await side.add(queue, 'a', range(1, 2))
    await side.until('all are done', async () => (await queue.getCompletedCount()) === 2)
    await queue.retryJobs({ state: 'completed' })
    await side.ended(4)
    return { order: side.order }
  },
  { order: [1, 2, 1, 2] },
)

same(
  'a worker that was busy starts the next job of a customer within milliseconds',
  async (side) => {
    const queue = side.queue()
    side.worker(() => pause(5))
    await side.add(queue, 'a', range(1, 30))
    await side.ended(30)
    return { order: side.order, overlaps: side.overlaps }
  },
  { order: range(1, 30), overlaps: 0 },
)
