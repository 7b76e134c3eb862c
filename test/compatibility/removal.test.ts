/** Jobs that are taken out of a queue: none of them runs, and none holds up those behind it. */
import { expect } from 'vitest'
import { differs, refused, same, sameAndAsSoon, useSides, type Scenario } from './differential.ts'
import { range, type Side, type WorkJob, type WorkQueue } from './side.ts'

useSides()

type Removal = (queue: WorkQueue, jobs: readonly WorkJob[], side: Side) => Promise<unknown>

/** Job 0 runs while the ten behind it are removed; then job 11 is added, and job 0 ends. */
function nextAfter(removal: Removal, delayed = false): Scenario {
  return async (side) => {
    const { queue, gate } = await side.behindTheFirst()
    const jobs = await side.addTo(queue, 'a', range(1, 10), delayed ? { delay: 3_600_000 } : {})
    await removal(queue, jobs, side)
    await side.addTo(queue, 'a', [11])
    gate.open()
    await side.ended(2)
    return { order: side.order, gapMs: side.gap(0, 11), left: await queue.count() }
  }
}

const ELEVEN = { order: [0, 11], left: 0 }

sameAndAsSoon(
  'drain removes all that wait in line, and the next job starts at once',
  nextAfter((queue) => queue.drain()),
  ELEVEN,
)

sameAndAsSoon(
  'drain(true) removes those that wait in line, and the next job starts at once',
  nextAfter((queue) => queue.drain(true)),
  ELEVEN,
)

sameAndAsSoon(
  'drain(true) removes delayed jobs, and the next job starts at once',
  nextAfter((queue) => queue.drain(true), true),
  ELEVEN,
)

sameAndAsSoon(
  'clean("wait") removes those that wait in line, and the next job starts at once',
  nextAfter((queue) => queue.clean(0, 100, 'wait')),
  ELEVEN,
)

sameAndAsSoon(
  'clean("delayed") removes delayed jobs, and the next job starts at once',
  nextAfter((queue) => queue.clean(0, 100, 'delayed'), true),
  ELEVEN,
)

sameAndAsSoon(
  'job.remove of jobs that wait in line: the next job starts at once',
  nextAfter((_, jobs) => Promise.all(jobs.map((job) => job.remove()))),
  ELEVEN,
)

sameAndAsSoon(
  'queue.remove of jobs that wait in line: the next job starts at once',
  nextAfter((queue, jobs) => Promise.all(jobs.map(({ id }) => queue.remove(id ?? '')))),
  ELEVEN,
)

sameAndAsSoon(
  'a plain queue removes jobs that wait in line: the next job starts at once',
  nextAfter((_, jobs, side) => {
    const plain = side.plainQueue()
    return Promise.all(jobs.map(({ id }) => plain.remove(id ?? '')))
  }),
  ELEVEN,
)

sameAndAsSoon(
  'the head of a line is removed while no job of it runs: the next one starts at once',
  async (side) => {
    const [head] = await side.add('a', [1, 2])
    await head?.remove()
    side.worker()
    const from = performance.now()
    await side.ended(1)
    return { order: side.order, gapMs: side.startOf(2) - from }
  },
  { order: [2] },
)

same(
  'drain counts and leaves what BullMQ leaves',
  async (side) => {
    await side.add('a', range(1, 5))
    await side.add('b', range(6, 7))
    await side.add('a', [8], { delay: 3_600_000 })
    await side.own.drain()
    const { waiting, delayed, prioritized } = await side.own.getJobCounts()
    return { waiting, delayed, prioritized }
  },
  { waiting: 0, delayed: 1, prioritized: 0 },
)

differs(
  'drain leaves the next job of a scheduler waiting',
  async (side) => {
    const queue = side.queue()
    await side.addTo(queue, 'a', [1])
    const template = { data: { customer: 'b', nr: 2 } }
    const next = await queue.upsertJobScheduler('s', { every: 3_600_000 }, template)
    await queue.drain()
    // BullMQ removes as many ids as it removes jobs, from the other end of the list.
    const waiting = await queue.getWaitingCount()
    const state = await queue.getJobState(next.id ?? '')
    await queue.removeJobScheduler('s')
    await queue.obliterate({ force: true })
    const isLeft = (await queue.getJob(next.id ?? '')) !== undefined
    return { waiting, state, isLeft }
  },
  {
    bullmq: { waiting: 1, state: 'unknown', isLeft: true },
    ours: { waiting: 1, state: 'waiting', isLeft: false },
  },
)

same(
  'clean("wait") takes up to its limit of those that wait in line, and returns their ids',
  async (side) => {
    const queue = side.queue()
    await side.addTo(queue, 'a', range(1, 5))
    const some = await queue.clean(0, 3, 'wait')
    const left = (await queue.getWaiting()).map(({ data }) => data.nr)
    const rest = await queue.clean(0, 100, 'wait')
    return { some: some.length, left, rest: rest.length, atLast: await queue.count() }
  },
  { some: 3, left: [4, 5], rest: 2, atLast: 0 },
)

same(
  'clean("prioritized") takes up to its limit, those with the highest priority',
  async (side) => {
    for (const nr of range(1, 5)) await side.add('a', [nr], { priority: nr })
    const some = await side.own.clean(0, 3, 'prioritized')
    const left = (await side.own.getPrioritized()).map(({ data }) => data.nr)
    return { some: some.length, left }
  },
  { some: 3, left: [4, 5] },
)

same(
  'clean("wait") spares jobs that are younger than its grace',
  async (side) => {
    await side.add('a', range(1, 3))
    const cleaned = await side.own.clean(60_000, 100, 'wait')
    return { cleaned, left: await side.own.getWaitingCount() }
  },
  { cleaned: [], left: 3 },
)

same(
  'clean("delayed") spares those that wait in line',
  async (side) => {
    await side.add('a', range(1, 3))
    await side.add('a', [4], { delay: 3_600_000 })
    const cleaned = await side.own.clean(0, 100, 'delayed')
    return { cleaned: cleaned.length, waiting: await side.own.getWaitingCount() }
  },
  { cleaned: 1, waiting: 3 },
)

same(
  'clean("completed") and clean("failed") remove finished jobs',
  async (side) => {
    const queue = side.queue()
    side.worker(({ data }) => {
      if (data.nr === 2) throw new Error('on purpose')
    })
    await side.addTo(queue, 'a', range(1, 3))
    await side.until('all are done', async () => (await queue.count()) === 0)
    await side.until('none is active', async () => (await queue.getActiveCount()) === 0)
    const completed = await queue.clean(0, 100, 'completed')
    const failed = await queue.clean(0, 100, 'failed')
    return { completed: completed.length, failed: failed.length }
  },
  { completed: 2, failed: 1 },
)

same(
  'obliterate needs force while a job runs',
  async (side) => {
    const gate = side.gate()
    side.worker(() => gate.passed)
    await side.add('a', range(1, 3))
    await side.started(1)
    const refusal = await side.own.obliterate().catch((error: unknown) => (error as Error).message)
    return { refusal }
  },
  { refusal: 'Cannot obliterate queue with active jobs' },
)

differs(
  'obliterate takes a parent whose child waits in another queue, and the child runs',
  async (side) => {
    const children = `${side.queueName}-children`
    const [queue, others] = [side.queue(), side.queue({ queueName: children })]
    const node = { name: 'work', data: { customer: 'a', nr: 1 } }
    const { job: parent } = await side.flows().add({
      ...{ ...node, queueName: side.queueName },
      children: [{ ...node, queueName: children }],
    })
    await queue.obliterate()
    const isThere = (await queue.getJob(parent.id ?? '')) !== undefined
    side.worker(() => 'done', { queueName: children })
    await side.until('the child is done', async () => (await others.getCompletedCount()) === 1)
    return { isThere, runs: side.runs.length, errors: side.errors.length }
  },
  {
    bullmq: { isThere: true, runs: 1, errors: 0 },
    ours: { isThere: false, runs: 1, errors: 0 },
  },
)

sameAndAsSoon(
  'obliterate leaves no place behind: ids begin again, and the next job starts at once',
  async (side) => {
    const worker = side.worker()
    await side.add('warm', [0])
    await side.ended(1)
    await worker.pause()
    await side.add('a', range(1, 5))
    await side.own.obliterate({ force: true })
    await side.add('b', [6], { delay: 3_600_000 })
    await side.add('a', [7])
    const from = performance.now()
    await worker.resume()
    await side.ended(2)
    return { order: side.order, gapMs: side.startOf(7) - from }
  },
  { order: [0, 7] },
)

same(
  'a job that runs cannot be removed',
  async (side) => {
    const gate = side.gate()
    side.worker(() => gate.passed)
    const [job] = await side.add('a', [1])
    await side.started(1)
    const removed = await side.own.remove(job?.id ?? '')
    gate.open()
    await side.ended(1)
    return { removed }
  },
  { removed: 0 },
)

sameAndAsSoon(
  'removeUnprocessedChildren: the next job of the children’s customer starts at once',
  async (side) => {
    const { queue, gate } = await side.behindTheFirst()
    const { job } = await side.flow(
      ['p', 99],
      range(1, 5).map((nr) => ['a', nr]),
    )
    // Ours have been started once to join the line, and sleep: a plain queue sees that.
    const plain = side.plainQueue()
    const asleep = side.isOurs ? 5 : 0
    await side.until('all wait', async () => (await plain.getDelayedCount()) === asleep)
    await job.removeUnprocessedChildren()
    await side.addTo(queue, 'a', [11])
    gate.open()
    await side.until('the last one ends', () => side.orderOf('a').includes(11))
    return { order: side.orderOf('a'), gapMs: side.gap(0, 11) }
  },
  { order: [0, 11] },
)

same(
  'removeOnComplete and removeOnFail leave nothing behind',
  async (side) => {
    side.worker(({ data }) => {
      if (data.nr === 2) throw new Error('on purpose')
    })
    await side.add('a', range(1, 4), { removeOnComplete: true, removeOnFail: true })
    await side.ended(4)
    await side.until('all are gone', async () => {
      const counts = await side.own.getJobCounts()
      return Object.values(counts).every((count) => count === 0)
    })
    return { order: side.order }
  },
  { order: [1, 2, 3, 4] },
)

same(
  'removeOnComplete keeps the number of jobs that it names',
  async (side) => {
    side.worker()
    await side.add('a', range(1, 6), { removeOnComplete: 2 })
    await side.ended(6)
    await side.until('the last is done', async () => (await side.own.getActiveCount()) === 0)
    const kept = await side.own.getCompleted()
    return { kept: kept.map(({ data }) => data.nr) }
  },
  { kept: [6, 5] },
)

same(
  'removeOrphanedJobs removes nothing that waits in line, and none of our keys',
  async (side) => {
    await side.add('a', range(1, 4))
    const removed = await side.own.removeOrphanedJobs()
    side.worker()
    await side.ended(4)
    return { removed, order: side.order }
  },
  { removed: 0, order: [1, 2, 3, 4] },
)

refused(
  'a queue without `resource` is refused',
  async (side) => {
    const queue = side.queue({ ours: { resource: undefined as never } })
    expect(queue.name).toBe(side.queueName)
    return Promise.resolve({})
  },
  /resource/,
)
