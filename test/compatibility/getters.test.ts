/** What a queue says of its jobs: those that wait in line are waiting ones. */
import { same, useSides } from './differential.ts'
import { range, type Side, type WorkJob, type WorkQueue } from './side.ts'
import { bullmqVersion } from './surface.ts'

useSides()

const numbers = (jobs: readonly WorkJob[]): number[] => jobs.map(({ data }) => data.nr)

/** Two customers whose jobs alternate, one of each delayed; no worker. */
async function filled(side: Side): Promise<{ queue: WorkQueue; jobs: WorkJob[] }> {
  const queue = side.queue()
  const jobs: WorkJob[] = []
  for (const nr of range(1, 6)) {
    jobs.push(...(await side.addTo(queue, nr % 2 === 1 ? 'a' : 'b', [nr])))
  }
  jobs.push(...(await side.addTo(queue, 'a', [7], { delay: 3_600_000 })))
  jobs.push(...(await side.addTo(queue, 'b', [8], { delay: 3_600_000 })))
  return { queue, jobs }
}

/** Job 0 runs, 1 to 3 wait in line behind it, 4 failed before. */
async function running(side: Side): Promise<{ queue: WorkQueue; jobs: WorkJob[] }> {
  const queue = side.queue()
  const gate = side.gate()
  side.worker(async ({ data }) => {
    if (data.nr === 4) throw new Error('on purpose')
    await gate.passed
  })
  const [failed] = await side.addTo(queue, 'a', [4])
  await side.until('it failed', async () => (await failed?.getState()) === 'failed')
  const jobs = await side.addTo(queue, 'a', range(0, 3))
  await side.started(0)
  return { queue, jobs: [...jobs, ...(failed === undefined ? [] : [failed])] }
}

const COUNTS = {
  active: 0,
  completed: 0,
  delayed: 2,
  failed: 0,
  prioritized: 0,
  waiting: 6,
  'waiting-children': 0,
}

same(
  'counts and lists of jobs that wait in line and of delayed ones, before any worker starts',
  async (side) => {
    const { queue, jobs } = await filled(side)
    const now = Date.now()
    const pages: number[][] = []
    for (const start of [0, 2, 4, 6]) pages.push(numbers(await queue.getWaiting(start, start + 1)))
    const ids = await queue.getRanges(['waiting'], 0, -1, true)
    const { data, name, delay } = (await queue.getJob(jobs[2]?.id ?? '')) ?? {}
    const text = await queue.exportPrometheusMetrics({ app: 'test' })
    const lines = text.split('\n').filter((line) => /state="(waiting|delayed)"/.test(line))
    return {
      counts: await queue.getJobCounts(),
      some: await queue.getJobCounts('delayed', 'failed', 'wait'),
      count: await queue.count(),
      countByTypes: await queue.getJobCountByTypes('waiting', 'delayed'),
      delayedSoon: await queue.getDelayedCount(now + 60_000),
      delayedLater: await queue.getDelayedCount(now + 7_200_000),
      waiting: numbers(await queue.getWaiting()),
      delayed: numbers(await queue.getDelayed()),
      oneDelayed: numbers(await queue.getDelayed(1, 1)),
      both: numbers(await queue.getJobs(['waiting', 'delayed'], 0, -1, true)).length,
      pages,
      tail: numbers(await queue.getJobs('waiting', 4, -1, true)),
      descending: numbers(await queue.getJobs(['waiting'], 0, 2, false)),
      ids: JSON.stringify(ids) === JSON.stringify(jobs.slice(0, 6).map(({ id }) => id)),
      job: { data, name, delay },
      noJob: await queue.getJob('none'),
      lines: lines.map((line) => line.replace(side.queueName, 'q')).toSorted(),
      recorded: await queue.recordJobCountsMetric('waiting', 'delayed'),
    }
  },
  {
    counts: COUNTS,
    some: { delayed: 2, failed: 0, wait: 6 },
    count: 8,
    countByTypes: 8,
    delayedSoon: 0,
    delayedLater: 2,
    waiting: [1, 2, 3, 4, 5, 6],
    delayed: [7, 8],
    oneDelayed: [8],
    both: 8,
    pages: [[1, 2], [3, 4], [5, 6], []],
    tail: [5, 6],
    descending: [6, 5, 4],
    ids: true,
    job: { data: { customer: 'a', nr: 3 }, name: 'work', delay: 0 },
    noJob: undefined,
    lines: [
      'bullmq_job_count{queue="q", state="delayed", app="test"} 2',
      'bullmq_job_count{queue="q", state="waiting", app="test"} 6',
    ],
    recorded: { waiting: 6, delayed: 2 },
  },
)

same(
  'counts, lists and states of jobs while one of their line runs',
  async (side) => {
    const { queue, jobs } = await running(side)
    const [first, second, , , failed] = jobs
    return {
      counts: [
        await queue.getWaitingCount(),
        await queue.getDelayedCount(),
        await queue.getActiveCount(),
        await queue.getCompletedCount(),
        await queue.getFailedCount(),
        await queue.getPrioritizedCount(),
        await queue.getWaitingChildrenCount(),
      ],
      active: numbers(await queue.getActive()),
      waiting: numbers(await queue.getWaiting()),
      failed: numbers(await queue.getFailed()),
      delayed: numbers(await queue.getDelayed()),
      completed: numbers(await queue.getCompleted()),
      children: numbers(await queue.getWaitingChildren()),
      states: await Promise.all(jobs.map((job) => job.getState())),
      asked: await queue.getJobState(second?.id ?? ''),
      unknown: await queue.getJobState('none'),
      is: {
        waiting: await second?.isWaiting(),
        delayed: await second?.isDelayed(),
        active: await first?.isActive(),
        failed: await failed?.isFailed(),
        completed: await failed?.isCompleted(),
        children: await failed?.isWaitingChildren(),
      },
    }
  },
  {
    counts: [3, 0, 1, 0, 1, 0, 0],
    active: [0],
    waiting: [1, 2, 3],
    failed: [4],
    delayed: [],
    completed: [],
    children: [],
    states: ['active', 'waiting', 'waiting', 'waiting', 'failed'],
    asked: 'waiting',
    unknown: 'unknown',
    is: {
      waiting: true,
      delayed: false,
      active: true,
      failed: true,
      completed: false,
      children: false,
    },
  },
)

same(
  'getPrioritized, getPrioritizedCount and getCountsPerPriority see those that wait in line',
  async (side) => {
    const queue = side.queue()
    await side.addTo(queue, 'a', [1, 2], { priority: 3 })
    await side.addTo(queue, 'b', [3], { priority: 1 })
    await side.addTo(queue, 'b', [4])
    const prioritized = numbers(await queue.getPrioritized())
    return {
      prioritized: prioritized.toSorted((a, b) => a - b),
      count: await queue.getPrioritizedCount(),
      counts: await queue.getJobCounts('waiting', 'prioritized', 'delayed'),
      perPriority: await queue.getCountsPerPriority([0, 1, 3]),
    }
  },
  {
    prioritized: [1, 2, 3],
    count: 3,
    counts: { waiting: 1, prioritized: 3, delayed: 0 },
    perPriority: { 0: 1, 1: 1, 3: 2 },
  },
)

same(
  'getState of a delayed job and of a prioritized one that waits in line',
  async (side) => {
    const [, prioritized] = await side.add('a', [1, 2], { priority: 4 })
    const [delayed] = await side.add('a', [3], { delay: 3_600_000 })
    return {
      delayed: await delayed?.getState(),
      isDelayed: await delayed?.isDelayed(),
      prioritized: await prioritized?.getState(),
    }
  },
  { delayed: 'delayed', isDelayed: true, prioritized: 'prioritized' },
)

same(
  'getJobLogs, addJobLog, job.log and clearLogs',
  async (side) => {
    const queue = side.queue()
    side.worker((job) => job.log('by the processor'))
    const [job] = await side.addTo(queue, 'a', [1])
    await side.ended(1)
    const id = job?.id ?? ''
    await side.until('it is done', async () => (await queue.getCompletedCount()) === 1)
    await queue.addJobLog(id, 'by hand')
    const { logs, count } = await queue.getJobLogs(id)
    await job?.clearLogs(1)
    return { logs, count, kept: (await queue.getJobLogs(id)).logs }
  },
  { logs: ['by the processor', 'by hand'], count: 2, kept: ['by hand'] },
)

same(
  'job.updateProgress and queue.updateJobProgress of a job that waits in line',
  async (side) => {
    const queue = side.queue()
    const jobs = await side.addTo(queue, 'a', [1, 2])
    await jobs[1]?.updateProgress(40)
    const first = await queue.getJob(jobs[1]?.id ?? '')
    await queue.updateJobProgress(jobs[1]?.id ?? '', { part: 2 })
    const second = await queue.getJob(jobs[1]?.id ?? '')
    side.worker()
    await side.ended(2)
    return { first: first?.progress, second: second?.progress, order: side.order }
  },
  { first: 40, second: { part: 2 }, order: [1, 2] },
)

same(
  'getWorkers, getWorkersCount, getMeta and getVersion',
  async (side) => {
    const queue = side.queue()
    const worker = side.worker(() => undefined, { name: 'mine' })
    await worker.waitUntilReady()
    await queue.setGlobalConcurrency(3)
    const meta = await queue.getMeta()
    await side.until('it is listed', async () => (await queue.getWorkersCount()) > 0)
    return {
      workers: (await queue.getWorkers()).map((one) => one['rawname']?.includes('mine')),
      count: await queue.getWorkersCount(),
      concurrency: meta.concurrency,
      version: await queue.getVersion(),
    }
  },
  { workers: [true], count: 1, concurrency: 3, version: `bullmq:${bullmqVersion()}` },
)

same(
  'getMetrics counts finished jobs once',
  async (side) => {
    const queue = side.queue()
    side.worker(
      ({ data }) => {
        if (data.nr === 2) throw new Error('on purpose')
      },
      { metrics: { maxDataPoints: 10 } },
    )
    await side.addTo(queue, 'a', range(1, 4))
    await side.ended(4)
    await side.until('the last is done', async () => (await queue.getCompletedCount()) === 3)
    const [completed, failed] = [
      await queue.getMetrics('completed'),
      await queue.getMetrics('failed'),
    ]
    return { completed: completed.meta.count, failed: failed.meta.count }
  },
  { completed: 3, failed: 1 },
)
