/** In which order the jobs of a customer, and of several, run: priorities, lifo and delays. */
import { differs, same, useSides } from './differential.ts'
import { pause, range } from './side.ts'

useSides()

const BY_PRIORITY = { ours: { within: 'priority' } } as const

differs(
  'priorities within a customer: the order of adding wins',
  async (side) => {
    await side.add('a', [1], { priority: 5 })
    await side.add('a', [2], { priority: 1 })
    await side.add('a', [3])
    side.worker()
    return side.orderAfter(3)
  },
  { bullmq: { order: [3, 2, 1] }, ours: { order: [1, 2, 3] } },
)

same(
  'within: "priority": priorities within a customer mean what they mean in BullMQ',
  async (side) => {
    const { queue, gate } = await side.behindTheFirst(BY_PRIORITY.ours)
    await side.addTo(queue, 'a', [1], { priority: 5 })
    await side.addTo(queue, 'a', [2], { priority: 1 })
    await side.addTo(queue, 'a', [3], { priority: 5 })
    await side.addTo(queue, 'a', [4])
    gate.open()
    return side.orderAfter(5)
  },
  { order: [0, 4, 2, 1, 3] },
)

same(
  'within: "priority": the order of jobs that were added before any worker started',
  async (side) => {
    const queue = side.queue(BY_PRIORITY)
    await side.addTo(queue, 'a', [1], { priority: 5 })
    await side.addTo(queue, 'a', [2], { priority: 1 })
    await side.addTo(queue, 'a', [3])
    side.worker()
    return side.orderAfter(3)
  },
  { order: [3, 2, 1] },
)

same(
  'within: "priority": changePriority of a job that waits in line',
  async (side) => {
    const { queue, gate } = await side.behindTheFirst(BY_PRIORITY.ours)
    const jobs = await side.addTo(queue, 'a', [1, 2, 3], { priority: 5 })
    await jobs[2]?.changePriority({ priority: 1 })
    gate.open()
    return side.orderAfter(4)
  },
  { order: [0, 3, 1, 2] },
)

same(
  'within: "priority": delayed jobs that are promoted or due take their places by priority',
  async (side) => {
    const { queue, gate } = await side.behindTheFirst(BY_PRIORITY.ours)
    await side.addTo(queue, 'a', [1], { priority: 1 })
    await side.addTo(queue, 'a', [4], { priority: 4 })
    const [promoted] = await side.addTo(queue, 'a', [2], { priority: 2, delay: 600_000 })
    await side.addTo(queue, 'a', [3], { priority: 3, delay: 50 })
    await promoted?.promote()
    await pause(100)
    gate.open()
    return side.orderAfter(5)
  },
  { order: [0, 1, 2, 3, 4] },
)

same(
  'within: "priority": a delayed job that is due when another job is tried again takes its place by priority',
  async (side) => {
    const queue = side.queue(BY_PRIORITY)
    const gate = side.gate()
    let failed = false
    side.worker(
      async ({ data }) => {
        if (data.nr === 0) await gate.passed
        if (data.nr !== 9 || failed) return
        failed = true
        await side.addTo(queue, 'a', [4], { priority: 4 })
        await side.addTo(queue, 'a', [5], { priority: 5, delay: 50 })
        await pause(100)
        throw new Error('once')
      },
      { concurrency: 2 },
    )
    await side.addTo(queue, 'a', [0])
    await side.started(0)
    await side.addTo(queue, 'b', [9], { attempts: 2 })
    await side.until('it is tried again', () => side.order.length > 2)
    await pause(50)
    gate.open()
    return side.orderAfter(5)
  },
  { order: [0, 9, 9, 4, 5] },
)

same(
  'within: "priority": a failed job that is retried by hand takes its place by priority',
  async (side) => {
    const queue = side.queue(BY_PRIORITY)
    const gate = side.gate()
    let failed = false
    side.worker(async ({ data }) => {
      if (data.nr === 0) await gate.passed
      if (data.nr !== 9 || failed) return
      failed = true
      throw new Error('once')
    })
    const [job] = await side.addTo(queue, 'a', [9], { priority: 5 })
    await side.until('it has failed', async () => (await queue.getFailedCount()) === 1)
    await side.addTo(queue, 'a', [0])
    await side.started(0)
    await side.addTo(queue, 'a', [1], { priority: 1 })
    await side.addTo(queue, 'a', [2])
    await (await queue.getJob(job?.id ?? ''))?.retry('failed')
    gate.open()
    return side.orderAfter(5)
  },
  { order: [9, 0, 2, 1, 9] },
)

same(
  'priorities between customers mean what they mean in BullMQ',
  async (side) => {
    await side.add('a', [1], { priority: 5 })
    await side.add('b', [2], { priority: 1 })
    await side.add('c', [3], { priority: 3 })
    await side.add('d', [4])
    side.worker(() => undefined, { concurrency: 1 })
    return side.orderAfter(4)
  },
  { order: [4, 2, 3, 1] },
)

same(
  'changePriority of a job that waits in line counts against other customers',
  async (side) => {
    const { queue, gate } = await side.behindTheFirst({}, 1)
    const [job] = await side.addTo(queue, 'a', [1], { priority: 9 })
    await side.addTo(queue, 'b', [2], { priority: 5 })
    await side.addTo(queue, 'c', [3], { priority: 3 })
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
    await side.addTo(queue, 'a', [1])
    const [job] = await side.addTo(queue, 'a', [2], { priority: 7, attempts: 3, jobId: 'j' })
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
    await side.add('a', [1, 2])
    await side.add('a', [3], { lifo: true })
    side.worker()
    return side.orderAfter(3)
  },
  { bullmq: { order: [3, 1, 2] }, ours: { order: [1, 2, 3] } },
)

same(
  'within: "priority": lifo within a customer means what it means in BullMQ',
  async (side) => {
    const { queue, gate } = await side.behindTheFirst(BY_PRIORITY.ours)
    await side.addTo(queue, 'a', [1, 2])
    await side.addTo(queue, 'a', [3], { lifo: true })
    gate.open()
    return side.orderAfter(4)
  },
  { order: [0, 3, 1, 2] },
)

same(
  'lifo between customers means what it means in BullMQ',
  async (side) => {
    await side.add('a', [1])
    await side.add('b', [2])
    await side.add('c', [3], { lifo: true })
    side.worker(() => undefined, { concurrency: 1 })
    return side.orderAfter(3)
  },
  { order: [3, 1, 2] },
)

same(
  'a delayed job runs when it is due, and holds up nothing until then',
  async (side) => {
    side.worker()
    const [job] = await side.add('a', [1], { delay: 3_600_000 })
    await side.add('a', [2, 3])
    await side.ended(2)
    await job?.changeDelay(200)
    await side.ended(3)
    const [late] = await side.add('a', [4], { delay: 200 })
    await side.ended(4)
    const { processedOn = 0, timestamp } = (await side.own.getJob(late?.id ?? '')) ?? {}
    return { order: side.order, isInTime: processedOn - (timestamp ?? Infinity) >= 200 }
  },
  { order: [2, 3, 1, 4], isInTime: true },
)

same(
  'changeDelay and promote of a job that waits in line are refused, as of any that waits',
  async (side) => {
    const jobs = await side.add('a', [1, 2])
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
    const [job] = await side.add('a', [1], { delay: 3_600_000 })
    await job?.promote()
    await side.add('a', [2])
    side.worker()
    return side.orderAfter(2)
  },
  { order: [1, 2] },
)

same(
  'promoteJobs wakes delayed jobs, and those that wait in line keep their order',
  async (side) => {
    await side.add('a', range(1, 4))
    await side.add('a', [5], { delay: 3_600_000 })
    await side.own.promoteJobs()
    const counts = await side.own.getJobCounts('waiting', 'delayed')
    side.worker()
    await side.ended(5)
    return { counts, order: side.order }
  },
  { counts: { waiting: 5, delayed: 0 }, order: [1, 2, 3, 4, 5] },
)

same(
  'addBulk adds in order, for every customer',
  async (side) => {
    side.worker()
    const jobs = range(1, 12).map((nr) => ({
      name: 'work',
      data: { customer: ['a', 'b', 'c'][nr % 3] ?? '', nr },
    }))
    const added = await side.own.addBulk(jobs)
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

same(
  'a worker that was busy starts the next job of a customer within milliseconds',
  async (side) => {
    side.worker(() => pause(5))
    await side.add('a', range(1, 30))
    await side.ended(30)
    return { order: side.order, overlaps: side.overlaps }
  },
  { order: range(1, 30), overlaps: 0 },
)
