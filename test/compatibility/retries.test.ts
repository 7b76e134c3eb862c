/** Jobs that run again: after a failure, by their own wish, or by hand. */
import { DelayedError, UnrecoverableError, WaitingError, Worker } from 'bullmq'
import { differs, same, useSides } from './differential.ts'
import { range } from './side.ts'

useSides()

differs(
  'a retry with backoff: the customer’s other jobs wait for it',
  async (side) => {
    side.worker((job) => {
      if (job.data.nr === 1 && job.attemptsMade === 0) throw new Error('on purpose')
    })
    await side.add('a', [1, 2], { attempts: 2, backoff: 150 })
    return side.orderAfter(3)
  },
  { bullmq: { order: [1, 2, 1] }, ours: { order: [1, 1, 2] } },
)

differs(
  'a retry without backoff runs at once, before the customer’s other jobs',
  async (side) => {
    await side.add('a', [1, 2], { attempts: 2 })
    side.worker((job) => {
      if (job.data.nr === 1 && job.attemptsMade === 0) throw new Error('on purpose')
    })
    return side.orderAfter(3)
  },
  { bullmq: { order: [1, 2, 1] }, ours: { order: [1, 1, 2] } },
)

same(
  'order: "relaxed": a retry with backoff lets others pass',
  async (side) => {
    const queue = side.plainQueue()
    await side.addTo(queue, 'a', [1, 2], { attempts: 2, backoff: 600 })
    side.worker(
      (job) => {
        if (job.data.nr === 1 && job.attemptsMade === 0) throw new Error('on purpose')
      },
      { ours: { order: 'relaxed' }, concurrency: 1 },
    )
    return side.orderAfter(3)
  },
  { order: [1, 2, 1] },
)

same(
  'attempts, attemptsMade, attemptsStarted and failedReason of a job that fails for good',
  async (side) => {
    side.worker(({ data }) => {
      if (data.nr === 2) throw new Error('on purpose')
    })
    const [, job] = await side.add('a', [1, 2, 3], { attempts: 3 })
    await side.ended(5)
    await side.failed(1)
    const { attemptsMade, attemptsStarted, failedReason, stacktrace } =
      (await side.own.getJob(job?.id ?? '')) ?? {}
    return { attemptsMade, attemptsStarted, failedReason, traces: stacktrace?.length }
  },
  { attemptsMade: 3, attemptsStarted: 3, failedReason: 'on purpose', traces: 3 },
)

same(
  'settings.backoffStrategy is called, and the job runs again',
  async (side) => {
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
    await side.add('a', [1], { attempts: 3, backoff: { type: 'mine' } })
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

differs(
  'a backoff that throws, or has no strategy: the job fails at once, and an error says why',
  async (side) => {
    const backoffStrategy = (): never => {
      throw new Error('no idea')
    }
    const fails = (): never => {
      throw new Error('on purpose')
    }
    const states: unknown[] = []
    for (const settings of [{ backoffStrategy }, undefined]) {
      const queueName = `${side.queueName}-${states.length}`
      side.worker(fails, { queueName, ...(settings && { settings }) })
      const queue = side.queue({ queueName })
      const [job] = await side.addTo(queue, 'a', [1], { attempts: 2, backoff: { type: 'mine' } })
      const errors = states.length + 1
      await side.until('there is an error', () => side.errors.length >= errors)
      const state = (): unknown => job?.getState()
      if (side.isOurs) await side.until('it failed', async () => (await state()) === 'failed')
      states.push(await state())
    }
    return { states }
  },
  { bullmq: { states: ['active', 'active'] }, ours: { states: ['failed', 'failed'] } },
)

same(
  'UnrecoverableError ends a job without another attempt',
  async (side) => {
    side.worker(({ data }) => {
      if (data.nr === 1) throw new UnrecoverableError('no use')
    })
    await side.add('a', [1, 2], { attempts: 5 })
    await side.ended(2)
    await side.failed(1)
    return { order: side.order }
  },
  { order: [1, 2] },
)

differs(
  'a processor that throws undefined or null: the job fails at once',
  async (side) => {
    side.worker(
      ({ data }) => {
        // eslint-disable-next-line @typescript-eslint/only-throw-error -- what it is about.
        if (data.nr <= 2) throw data.nr === 1 ? undefined : null
      },
      { concurrency: 4 },
    )
    const jobs = await side.add('a', [1, 2, 3])
    await side.started(3)
    await side.completed(1)
    const states = await Promise.all(jobs.map((job) => job.getState()))
    const [, found] = await Promise.all(jobs.map(({ id = '' }) => side.own.getJob(id)))
    return { states, reason: found?.failedReason }
  },
  {
    bullmq: { states: ['active', 'active', 'completed'], reason: undefined },
    ours: {
      states: ['failed', 'failed', 'completed'],
      reason: 'The job failed without a reason',
    },
  },
)

differs(
  'moveToDelayed and DelayedError: the customer’s other jobs wait for it',
  async (side) => {
    await side.add('a', [1, 2])
    side.worker(async (job, { token }) => {
      if (job.data.nr === 1 && job.data.step === undefined) {
        await job.updateData({ ...job.data, step: 'again' })
        await job.moveToDelayed(Date.now() + 150, token)
        throw new DelayedError()
      }
    })
    await side.ended(3)
    const [first] = await side.own.getCompleted()
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
    await side.add('a', [1, 2])
    side.worker(async (job, { token }) => {
      if (job.data.nr === 1 && job.data.step === undefined) {
        await job.updateData({ ...job.data, step: 'again' })
        await job.moveToWait(token)
        throw new WaitingError()
      }
    })
    return side.orderAfter(3)
  },
  { order: [1, 1, 2] },
)

same(
  'queue.rateLimit and RateLimitError: the job runs again, no attempt is used',
  async (side) => {
    const queue = side.queue()
    await side.addTo(queue, 'a', [1, 2])
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
    const gate = side.gate()
    let fails = true
    side.worker(async ({ data }) => {
      if (data.nr === 1 && fails) throw new Error('on purpose')
      if (data.nr === 2) await gate.passed
    })
    const [job] = await side.add('a', [1, 2, 3])
    await side.started(2)
    fails = false
    await job?.retry()
    gate.open()
    return side.orderAfter(4)
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
    await side.addTo(queue, 'a', range(1, 3))
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
    side.worker()
    await side.add('a', range(1, 2))
    await side.completed(2)
    await side.own.retryJobs({ state: 'completed' })
    return side.orderAfter(4)
  },
  { order: [1, 2, 1, 2] },
)
