/** The events of queues and workers. */
import type { JobsOptions } from 'bullmq'
import { same, useSides } from './differential.ts'
import { pause, type Side, type WorkJob } from './side.ts'

useSides()

async function eventsOf(side: Side, opts: JobsOptions): Promise<Record<string, number>> {
  const events = await side.events()
  const seen = new Map<string, number>()
  for (const name of ['added', 'waiting', 'delayed', 'active', 'completed'] as const) {
    events.on(name, () => {
      seen.set(name, (seen.get(name) ?? 0) + 1)
    })
  }
  await side.add('a', [1, 2, 3], opts)
  side.worker()
  await side.ended(3)
  await side.until('all events are there', () => seen.get('completed') === 3)
  await pause(50)
  return Object.fromEntries(seen)
}

same(
  'queue events of three jobs of one customer: each is added, waits, runs and completes once',
  (side) => eventsOf(side, {}),
  { added: 3, waiting: 3, active: 3, completed: 3 },
)

same(
  'queue events of three jobs of one customer with a priority: each waits once',
  (side) => eventsOf(side, { priority: 2 }),
  { added: 3, waiting: 3, active: 3, completed: 3 },
)

same(
  'queue.on("waiting") hears of every job that is added',
  async (side) => {
    const seen: number[] = []
    side.own.on('waiting', (job) => {
      seen.push(job.data.nr)
    })
    await side.add('a', [1, 2])
    await side.own.addBulk([{ name: 'work', data: { customer: 'a', nr: 3 } }])
    return { seen }
  },
  { seen: [1, 2] },
)

same(
  'queue.on: cleaned, removed, progress, paused and resumed',
  async (side) => {
    const queue = side.queue()
    const seen: string[] = []
    queue.on('cleaned', (ids, type) => seen.push(`cleaned ${ids.length} ${type}`))
    queue.on('removed', () => seen.push('removed'))
    queue.on('progress', (_, progress) => seen.push(`progress ${JSON.stringify(progress)}`))
    queue.on('paused', () => seen.push('paused'))
    queue.on('resumed', () => seen.push('resumed'))
    const jobs = await side.addTo(queue, 'a', [1, 2, 3])
    await jobs[1]?.updateProgress(5)
    await jobs[1]?.remove()
    await queue.pause()
    await queue.resume()
    await queue.clean(0, 10, 'wait')
    return { seen }
  },
  { seen: ['progress 5', 'removed', 'paused', 'resumed', 'cleaned 2 wait'] },
)

same(
  'queueEvents: progress, removed, cleaned, drained, deduplicated, duplicated, failed and retries-exhausted',
  async (side) => {
    const events = await side.events()
    const seen = new Set<string>()
    const names = ['progress', 'removed', 'cleaned', 'drained', 'deduplicated'] as const
    const others = ['duplicated', 'failed', 'retries-exhausted', 'paused', 'resumed'] as const
    for (const name of [...names, ...others]) events.on(name, () => seen.add(name))
    const queue = side.queue()
    await queue.pause()
    const jobs = await side.addTo(queue, 'a', [1, 2, 3, 4])
    await jobs[1]?.updateProgress(5)
    await jobs[2]?.remove()
    for (let time = 0; time < 2; time++) {
      await side.addTo(queue, 'a', [5], { deduplication: { id: 'd' } })
      await side.addTo(queue, 'a', [6], { jobId: 'j' })
    }
    await queue.clean(0, 1, 'wait')
    side.worker(() => {
      throw new Error('on purpose')
    })
    await queue.resume()
    await side.until(
      () => `all events are there: ${[...seen].join()}`,
      () => seen.size === 10,
    )
    return { seen: seen.size }
  },
  { seen: 10 },
)

same(
  'queueEvents: a job that waits in line is removed as a waiting one',
  async (side) => {
    const events = await side.events()
    const seen: string[] = []
    events.on('removed', ({ prev }) => seen.push(prev))
    const [, second] = await side.add('a', [1, 2])
    await second?.remove()
    await side.until('it was removed', () => seen.length > 0)
    return { seen }
  },
  { seen: ['wait'] },
)

same(
  'worker.on: ready, active, progress, completed, failed, drained, paused, resumed, closing, closed',
  async (side) => {
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
    await side.add('a', [1, 2])
    await side.ended(2)
    await side.until('it was drained', () => drained > 0)
    await worker.pause()
    await worker.resume()
    await worker.close()
    return { seen }
  },
  {
    seen: [
      ...['ready', 'active 1 waiting', '1 7', 'completed 1 done active', 'active 2 waiting', '2 7'],
      ...['failed 2 on purpose active', 'paused', 'resumed', 'closing', 'closed'],
    ],
  },
)

same(
  'drained comes once after the last of many jobs of one customer, of worker and queue',
  async (side) => {
    const events = await side.events()
    const waiting: number[] = []
    let told = 0
    events.on('drained', () => told++)
    await side.add('a', [1, 2, 3, 4, 5, 6, 7, 8])
    const worker = side.worker(() => pause(10))
    worker.on('drained', () => waiting.push(8 - side.runs.length))
    await side.ended(8)
    await side.until('both have told it', () => waiting.length > 0 && told > 0)
    await pause(300)
    return { waiting, told }
  },
  { waiting: [0], told: 1 },
)

same(
  'drained comes once where jobs are tried again at once, and where those of a plain Queue wait',
  async (side) => {
    const queue = side.plainQueue()
    for (const nr of [1, 2, 3, 4]) await queue.add('work', { customer: 'a', nr }, { attempts: 3 })
    const waiting: number[] = []
    // Another loop would look while the last job runs.
    const process = async ({ attemptsMade }: WorkJob): Promise<void> => {
      await pause(10)
      if (attemptsMade < 2) throw new Error('not yet')
    }
    const worker = side.worker(process, { concurrency: 1 })
    worker.on('drained', () => waiting.push(12 - side.runs.length))
    await side.ended(12)
    await side.until('it was told', () => waiting.length > 0)
    await pause(300)
    return { waiting }
  },
  { waiting: [0] },
)

same(
  'drained comes once for each time, also where another loop of the worker looks meanwhile',
  async (side) => {
    let told = 0
    // With a priority, a job that is woken leaves a mark, by which the other loops look.
    const worker = side.worker(() => pause(2))
    await worker.waitUntilReady()
    await pause(50)
    worker.on('drained', () => told++)
    const times = 25
    for (let time = 1; time <= times; time++) {
      await side.own.addBulk(
        [1, 2, 3].map((nr) => ({
          name: 'work',
          data: { customer: 'a', nr },
          opts: { priority: 1 },
        })),
      )
      await side.ended(3 * time)
      await side.until('it was told', () => told >= time)
      await pause(20)
    }
    return { extra: told - times }
  },
  { extra: 0 },
)
