/**
 * Jobs of BullMQ's own `Queue`, `FlowProducer` and schedulers: they take their place at their first
 * start.
 */
import { Redis } from 'ioredis'
import {
  differs,
  differsAlone,
  same,
  sameAndAsSoon,
  type Scenario,
  useSides,
} from './differential.ts'
import { pause, range } from './side.ts'

useSides()

/** A worker that starts when jobs already wait, in several queues one after the other. */
function coldWorker(concurrency: number): Scenario {
  return async (side) => {
    const orders: string[] = []
    for (const round of range(1, 5)) {
      const customer = `a${round}`
      const queue = side.plainQueue()
      await side.addTo(queue, customer, range(1, 5))
      const worker = side.worker(() => pause(2), side.isOurs ? { concurrency } : {})
      await side.ended(round * 5)
      await worker.close()
      orders.push(side.orderOf(customer).join())
    }
    return { orders: [...new Set(orders)], overlaps: side.overlaps }
  }
}

const IN_ORDER = { orders: ['1,2,3,4,5'], overlaps: 0 }

same('jobs of a plain Queue and a cold worker of concurrency 2: in order', coldWorker(2), IN_ORDER)
same('jobs of a plain Queue and a cold worker of concurrency 5: in order', coldWorker(5), IN_ORDER)
same(
  'jobs of a plain Queue and a cold worker of concurrency 16: in order',
  coldWorker(16),
  IN_ORDER,
)

same(
  'jobs of a plain Queue and a running worker: each runs once, and none overlaps',
  async (side) => {
    const queue = side.plainQueue()
    side.worker(() => pause(3))
    await side.addTo(queue, 'a', range(1, 20))
    await side.ended(20)
    return { ran: side.ran, overlaps: side.overlaps }
  },
  { ran: range(1, 20), overlaps: 0 },
)

same(
  'jobs of a plain Queue beside those of a LockedQueue: none is lost, none overlaps',
  async (side) => {
    const [plain, queue] = [side.plainQueue(), side.queue()]
    side.worker(() => pause(2))
    for (const nr of range(1, 10)) await side.addTo(nr % 2 === 0 ? plain : queue, 'a', [nr])
    await side.ended(10)
    return { ran: side.ran, overlaps: side.overlaps }
  },
  { ran: range(1, 10), overlaps: 0 },
)

differs(
  'active events and attemptsStarted of jobs of a plain Queue: one more for each that waited',
  async (side) => {
    const queue = side.plainQueue()
    const gate = side.gate()
    let active = 0
    side
      .worker(async ({ data }) => {
        if (data.nr === 1) await gate.passed
      })
      .on('active', () => {
        active++
      })
    const jobs = await side.addTo(queue, 'a', [1])
    await side.started(1)
    jobs.push(...(await side.addTo(queue, 'a', [2, 3])))
    await pause(150)
    gate.open()
    await side.ended(3)
    await side.until('all are done', async () => (await queue.getCompletedCount()) === 3)
    const done = await Promise.all(jobs.map(({ id }) => queue.getJob(id ?? '')))
    return {
      order: side.order,
      active,
      started: done.map((job) => job?.attemptsStarted),
      made: done.map((job) => job?.attemptsMade),
    }
  },
  {
    bullmq: { order: [1, 2, 3], active: 3, started: [1, 1, 1], made: [1, 1, 1] },
    ours: { order: [1, 2, 3], active: 5, started: [1, 2, 2], made: [1, 1, 1] },
  },
)

differs(
  'active events and attemptsStarted of a job that is promoted or retried while others run: one more',
  async (side) => {
    const gate = side.gate()
    let active = 0
    side
      .worker(async ({ data, attemptsMade }) => {
        if (data.nr === 1) await gate.passed
        if (data.nr === 3 && attemptsMade === 0) throw new Error('on purpose')
      })
      .on('active', () => {
        active++
      })
    const [failed] = await side.add('a', [3])
    await side.until('it has failed', async () => (await failed?.isFailed()) === true)
    const [, delayed] = [
      ...(await side.add('a', [1])),
      ...(await side.add('a', [2], { delay: 60_000 })),
    ]
    await side.started(1)
    await delayed?.promote()
    await failed?.retry()
    await pause(150)
    gate.open()
    await side.completed(3)
    const done = await Promise.all([failed, delayed].map((job) => side.own.getJob(job?.id ?? '')))
    return { order: side.order, active, started: done.map((job) => job?.attemptsStarted) }
  },
  {
    bullmq: { order: [3, 1, 2, 3], active: 4, started: [2, 1] },
    ours: { order: [3, 1, 2, 3], active: 6, started: [3, 2] },
  },
)

same(
  'a limiter counts each job of a plain Queue once',
  async (side) => {
    const queue = side.plainQueue()
    const gate = side.gate()
    side.worker(() => gate.passed, { limiter: { max: 1_000, duration: 60_000 } })
    await side.addTo(queue, 'a', range(1, 4))
    await side.started(1)
    await pause(150)
    gate.open()
    await side.ended(4)
    const redis = new Redis(side.connection)
    side.defer(() => redis.quit())
    return { order: side.order, counted: Number(await redis.get(queue.toKey('limiter'))) }
  },
  { order: range(1, 4), counted: 4 },
)

sameAndAsSoon(
  'a limiter with jobs of a LockedQueue',
  async (side) => {
    await side.add('a', range(1, 9))
    const from = performance.now()
    side.worker(() => undefined, { limiter: { max: 3, duration: 400 } })
    await side.ended(9)
    return { order: side.order, gapMs: performance.now() - from }
  },
  { order: range(1, 9) },
)

same(
  'upsertJobScheduler: its jobs run one at a time, and behind what waits in line',
  async (side) => {
    const queue = side.queue()
    side.worker(() => pause(10))
    await queue.upsertJobScheduler('s', { every: 60, limit: 3 }, { data: { customer: 'a', nr: 1 } })
    await side.addTo(queue, 'a', [2, 3])
    await side.ended(5)
    await pause(150)
    return { ran: side.ran, overlaps: side.overlaps, failed: await queue.getFailedCount() }
  },
  { ran: [1, 1, 1, 2, 3], overlaps: 0, failed: 0 },
)

same(
  'a scheduler that is faster than its jobs keeps two unfinished, and goes on',
  async (side) => {
    const queue = side.plainQueue()
    await queue.upsertJobScheduler('s', { every: 20 }, { data: { customer: 'a', nr: 1 } })
    side.worker(() => pause(150))
    let most = 0
    await side.until('eight jobs ran', async () => {
      const { active = 0, waiting = 0, delayed = 0 } = await queue.getJobCounts()
      most = Math.max(most, active + waiting + delayed)
      return side.runs.length === 8
    })
    return { most }
  },
  { most: 2 },
)

same(
  'getJobScheduler, getJobSchedulers, getJobSchedulersCount and removeJobScheduler',
  async (side) => {
    const queue = side.queue()
    await queue.upsertJobScheduler('s', { every: 3_600_000 }, { data: { customer: 'a', nr: 1 } })
    const one = await queue.getJobScheduler('s')
    const all = await queue.getJobSchedulers()
    const count = await queue.getJobSchedulersCount()
    const removed = await queue.removeJobScheduler('s')
    return {
      one: one?.every,
      all: all.length,
      count,
      removed,
      left: await queue.getJobSchedulersCount(),
    }
  },
  { one: 3_600_000, all: 1, count: 1, removed: true, left: 0 },
)

same(
  'removeJobScheduler leaves its job that waits in line, and removes one that is delayed',
  async (side) => {
    const { queue, gate } = await side.behindTheFirst()
    await queue.upsertJobScheduler('s', { every: 3_600_000 }, { data: { customer: 'a', nr: 1 } })
    await side.until('it waits', async () => (await queue.getWaitingCount()) === 1)
    await queue.removeJobScheduler('s')
    const startDate = Date.now() + 3_600_000
    await queue.upsertJobScheduler('t', { every: 1, startDate }, { data: { customer: 'a', nr: 2 } })
    await queue.removeJobScheduler('t')
    const { waiting, delayed } = await queue.getJobCounts('waiting', 'delayed')
    gate.open()
    await side.ended(2)
    return { waiting, delayed, order: side.order }
  },
  { waiting: 1, delayed: 0, order: [0, 1] },
)

same(
  'a scheduler with a pattern and immediately, startDate and endDate',
  async (side) => {
    const queue = side.queue()
    side.worker()
    const repeat = { pattern: '0 0 1 1 *', immediately: true, endDate: Date.now() + 10 ** 12 }
    await queue.upsertJobScheduler('s', repeat, { data: { customer: 'a', nr: 1 } })
    await queue.upsertJobScheduler(
      't',
      { every: 50, startDate: Date.now() + 200, limit: 1 },
      { data: { customer: 'a', nr: 2 } },
    )
    await side.ended(2)
    const { delayed } = await queue.getJobCounts('delayed')
    return { order: side.order, delayed }
  },
  { order: [1, 2], delayed: 1 },
)

same(
  'a scheduler that is set again while the queue is paused keeps the job that it added before',
  async (side) => {
    const queue = side.queue()
    await queue.pause()
    for (const every of [50_000, 60_000, 70_000]) {
      await queue.upsertJobScheduler('s', { every }, { data: { customer: 'a', nr: 1 } })
      await pause(5) // Of two in one millisecond the second is delayed.
    }
    return { waiting: await queue.getWaitingCount() }
  },
  { waiting: 3 },
)

differsAlone(
  'a plain Worker on a LockedQueue: what waits in line waits for a LockedWorker',
  async (side) => {
    const ran: number[] = []
    await side.add('a', range(1, 3))
    const plain = side.plainWorker(({ data }) => {
      ran.push(data.nr)
    })
    await side.until('the first has run', () => ran.length > 0)
    await pause(300)
    const byPlain = [...ran]
    await plain.close()
    if (byPlain.length === 3) return { byPlain, byOurs: [] }
    side.worker()
    await side.ended(2)
    return { byPlain, byOurs: side.order }
  },
  { bullmq: { byPlain: [1, 2, 3], byOurs: [] }, ours: { byPlain: [1], byOurs: [2, 3] } },
)
