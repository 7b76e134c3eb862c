/** The job as an object, and the options that it is added with. */
import { Job, RedisQueueBackend, Worker } from 'bullmq'
import { differs, differsAlone, same, useSides } from './differential.ts'
import { range, type Work } from './side.ts'

useSides()

same(
  'Job.create and Job.createBulk add to the line as queue.add does',
  async (side) => {
    const { queue, gate } = await side.behindTheFirst()
    await Job.create<Work>(queue, 'work', { customer: 'a', nr: 1 })
    const data = range(2, 3).map((nr) => ({ name: 'work', data: { customer: 'a', nr } }))
    await Job.createBulk<Work>(queue, data)
    await side.addTo(queue, 'a', [4])
    const waiting = await queue.getWaitingCount()
    gate.open()
    await side.ended(5)
    return { waiting, order: side.order }
  },
  { waiting: 4, order: range(0, 4) },
)

same(
  'Job.fromId, Job.fromJSON, toJSON and asJSON of a job that waits in line',
  async (side) => {
    const queue = side.queue()
    const [, job] = await side.addTo(queue, 'a', [1, 2], { attempts: 2 })
    const found = await Job.fromId<Work>(queue, job?.id ?? '')
    const { data, attemptsMade, delay } = found?.toJSON() ?? {}
    const json = found?.asJSON()
    const copy = json && Job.fromJSON<Work>(queue, json, job?.id)
    return {
      id: found?.id === job?.id,
      json: { data, attemptsMade, delay },
      stored: json?.data,
      attempts: json?.opts.attempts,
      copy: copy?.data,
      sandbox: found?.asJSONSandbox().queueName === side.queueName,
    }
  },
  {
    id: true,
    json: { data: { customer: 'a', nr: 2 }, attemptsMade: 0, delay: 0 },
    stored: '{"customer":"a","nr":2}',
    attempts: 2,
    copy: { customer: 'a', nr: 2 },
    sandbox: true,
  },
)

same(
  'a timestamp of the caller: the order of adding holds, and the job shows it',
  async (side) => {
    await side.add('a', [1])
    const [job] = await side.add('a', [2], { timestamp: 1_000 })
    await side.add('a', [3], { timestamp: Date.now() + 3_600_000 })
    await side.add('a', [4])
    const shown = (await side.own.getJob(job?.id ?? ''))?.timestamp
    side.worker()
    await side.ended(4)
    return { shown, order: side.order }
  },
  { shown: 1_000, order: range(1, 4) },
)

same(
  'sizeLimit refuses a job that is too large, and leaves no place behind',
  async (side) => {
    side.worker()
    const refusal = await side.add('a', [1], { sizeLimit: 5 }).then(
      () => 'accepted',
      () => 'refused',
    )
    await side.add('a', [2])
    await side.ended(1)
    return { refusal, order: side.order }
  },
  { refusal: 'refused', order: [2] },
)

same(
  'addBulk with one job that is refused adds none, and leaves no place behind',
  async (side) => {
    const queue = side.queue()
    side.worker()
    const refusal = await queue
      .addBulk([
        { name: 'work', data: { customer: 'a', nr: 1 } },
        { name: 'work', data: { customer: 'a', nr: 2 }, opts: { sizeLimit: 5 } },
      ])
      .then(
        () => 'accepted',
        () => 'refused',
      )
    await side.addTo(queue, 'a', [3])
    await side.until('the last one ran', () => side.order.includes(3))
    return { refusal, order: side.order }
  },
  { refusal: 'refused', order: [3] },
)

same(
  'add with a parent that does not exist is refused, and leaves no place behind',
  async (side) => {
    side.worker()
    const parent = { id: 'none', queue: side.own.qualifiedName }
    const refusal = await side.add('a', [1], { parent }).then(
      () => 'accepted',
      (error: unknown) => (error as Error).message.replace(side.queueName, 'q'),
    )
    await side.add('a', [2])
    await side.ended(1)
    return { refusal, order: side.order }
  },
  { refusal: 'Missing key for parent job bull:q:none. addJob', order: [2] },
)

same(
  'keepLogs and stackTraceLimit of a job that waited in line',
  async (side) => {
    const queue = side.queue()
    side.worker(async (job) => {
      for (const row of ['one', 'two', 'three']) await job.log(row)
      throw new Error('on purpose')
    })
    const [, job] = await side.addTo(queue, 'a', [1, 2], {
      keepLogs: 2,
      stackTraceLimit: 1,
      attempts: 2,
    })
    await side.until('both failed', async () => (await queue.getFailedCount()) === 2)
    const { logs } = await queue.getJobLogs(job?.id ?? '')
    const failed = await queue.getJob(job?.id ?? '')
    return { logs: logs.length, traces: failed?.stacktrace?.length }
  },
  { logs: 2, traces: 1 },
)

same(
  'backoff: fixed, exponential and with jitter give as many attempts',
  async (side) => {
    side.worker(() => {
      throw new Error('on purpose')
    })
    for (const [nr, backoff] of [
      { type: 'fixed', delay: 20 },
      { type: 'exponential', delay: 10 },
      { type: 'fixed', delay: 20, jitter: 0.5 },
    ].entries()) {
      await side.add(`c${nr}`, [nr], { attempts: 3, backoff })
    }
    await side.ended(9)
    return { ran: side.ran }
  },
  { ran: [0, 0, 0, 1, 1, 1, 2, 2, 2] },
)

differs(
  'worker.opts: lockDuration, stalledInterval and maxStalledCount follow from the lease',
  (side) => {
    const { opts } = side.worker(() => undefined, { autorun: false })
    const { lockDuration, stalledInterval, maxStalledCount, concurrency } = opts
    return Promise.resolve({
      lockDuration,
      stalledInterval,
      maxStalledCount,
      concurrency: concurrency === (side.isOurs ? 4 : 1),
    })
  },
  {
    bullmq: {
      lockDuration: 30_000,
      stalledInterval: 30_000,
      maxStalledCount: 1,
      concurrency: true,
    },
    ours: { lockDuration: 5_000, stalledInterval: 1_000, maxStalledCount: 3, concurrency: true },
  },
)

same(
  'lockDuration, stalledInterval and maxStalledCount from the options hold',
  (side) => {
    const given = { lockDuration: 7_000, stalledInterval: 900, maxStalledCount: 2 }
    const { opts } = side.worker(() => undefined, { autorun: false, ...given })
    const { lockDuration, stalledInterval, maxStalledCount } = opts
    return Promise.resolve({ lockDuration, stalledInterval, maxStalledCount })
  },
  { lockDuration: 7_000, stalledInterval: 900, maxStalledCount: 2 },
)

same(
  'getBackend is BullMQ’s Redis backend, of queue and worker',
  async (side) => {
    const [queue, worker] = [side.queue(), side.worker()]
    return Promise.resolve({
      queue: queue.getBackend() instanceof RedisQueueBackend,
      worker: worker.getBackend() instanceof RedisQueueBackend,
      name: queue.name === side.queueName && worker.name === side.queueName,
      qualified: queue.qualifiedName === `bull:${side.queueName}`,
    })
  },
  { queue: true, worker: true, name: true, qualified: true },
)

same(
  'worker.rateLimit and RateLimitError: the job runs again',
  async (side) => {
    await side.add('a', [1, 2])
    let limited = 0
    const worker = side.worker(
      async ({ data }) => {
        if (data.nr === 1 && limited++ === 0) {
          // eslint-disable-next-line @typescript-eslint/no-deprecated -- It is public all the same.
          await worker.rateLimit(100)
          throw Worker.RateLimitError()
        }
      },
      { limiter: { max: 100, duration: 500 } },
    )
    return side.orderAfter(3)
  },
  { order: [1, 1, 2] },
)

same(
  'a job that fails for good while others wait: they run',
  async (side) => {
    side.worker(({ data }) => {
      if (data.nr === 1) throw new Error('on purpose')
    })
    await side.add('a', [1, 2, 3])
    await side.ended(3)
    return { order: side.order, failed: await side.own.getFailedCount() }
  },
  { order: [1, 2, 3], failed: 1 },
)

differsAlone(
  'a delayed job of a process whose clock is a minute ahead runs in time',
  async (side) => {
    const { now } = Date
    Date.now = () => now() + 60_000
    await side.add('a', [1], { delay: 100 }).finally(() => (Date.now = now))
    side.worker() // In this process; its clock is right.
    await side.add('b', [2], { delay: 1_000 })
    await side.until('the second ran', () => side.order.includes(2))
    return { order: side.order }
  },
  { bullmq: { order: [2] }, ours: { order: [1, 2] } },
)
