/** Jobs that are added twice, by their ids or deduplicated; calls that follow an add at once. */
import { differs, same, sameAndAsSoon, useSides, type Scenario } from './differential.ts'
import { pause, type Side, type WorkJob } from './side.ts'

useSides()

/**
 * The first add is for later; the second one, without a delay, changes nothing; another job comes
 * behind it.
 */
function addedAgain(first: object, second: object): Scenario {
  return async (side) => {
    side.worker()
    const [job] = await side.add('a', [1], first)
    await side.add('a', [1], second)
    const from = performance.now()
    await side.add('a', [2])
    await side.ended(1)
    await pause(300)
    return { order: side.order, state: await job?.getState(), gapMs: side.startOf(2) - from }
  }
}

const STILL_DELAYED = { order: [2], state: 'delayed' }

sameAndAsSoon(
  'a delayed job that is added again by its jobId stays delayed, and holds up nothing',
  addedAgain({ jobId: 'j', delay: 300_000 }, { jobId: 'j' }),
  STILL_DELAYED,
)

sameAndAsSoon(
  'a job with a delay of an hour that is added again by its jobId stays delayed',
  addedAgain({ jobId: 'j', delay: 3_600_000 }, { jobId: 'j' }),
  STILL_DELAYED,
)

sameAndAsSoon(
  'a delayed job that is deduplicated stays delayed, and holds up nothing',
  addedAgain({ deduplication: { id: 'd' }, delay: 610_000 }, { deduplication: { id: 'd' } }),
  STILL_DELAYED,
)

same(
  'a delayed job that is added again runs when it is due',
  async (side) => {
    side.worker()
    await side.add('a', [1], { jobId: 'j', delay: 2_000 })
    await side.add('a', [1], { jobId: 'j' })
    await side.add('a', [2])
    return side.orderAfter(2)
  },
  { order: [2, 1] },
)

same(
  'a job that waits in line and is added again by its jobId keeps its place, data and state',
  async (side) => {
    await side.add('a', [1])
    const [job] = await side.add('a', [2], { jobId: 'j' })
    await side.add('a', [3])
    await side.add('a', [4], { jobId: 'j' })
    const state = await job?.getState()
    const counts = await side.own.getJobCounts('waiting', 'delayed')
    side.worker()
    await side.ended(3)
    return { state, counts, order: side.order }
  },
  { state: 'waiting', counts: { waiting: 3, delayed: 0 }, order: [1, 2, 3] },
)

sameAndAsSoon(
  'a finished job that is added again by its jobId holds up nothing',
  async (side) => {
    side.worker()
    await side.add('a', [1], { jobId: 'j' })
    await side.ended(1)
    await side.completed(1)
    await side.add('a', [1], { jobId: 'j' })
    const from = performance.now()
    await side.add('a', [2])
    await side.ended(2)
    return { order: side.order, gapMs: side.startOf(2) - from }
  },
  { order: [1, 2] },
)

sameAndAsSoon(
  'deduplication with a ttl: what is added after the job is done holds up nothing',
  async (side) => {
    side.worker()
    const deduplication = { id: 'd', ttl: 60_000 }
    await side.add('a', [1], { deduplication })
    await side.completed(1)
    for (const nr of [2, 3, 4]) await side.add('a', [nr], { deduplication })
    const from = performance.now()
    await side.add('a', [5])
    await side.ended(2)
    return { order: side.order, gapMs: side.startOf(5) - from }
  },
  { order: [1, 5] },
)

same(
  'deduplication without a ttl: the id is free again when the job is done',
  async (side) => {
    const gate = side.gate()
    side.worker(async ({ data }) => {
      if (data.nr === 1) await gate.passed
    })
    const deduplication = { id: 'd' }
    const [first] = await side.add('a', [1], { deduplication })
    await side.started(1)
    const [second] = await side.add('a', [2], { deduplication })
    const sameJob = first?.id === second?.id
    gate.open()
    await side.completed(1)
    await side.add('a', [3], { deduplication })
    await side.ended(2)
    return { sameJob, order: side.order }
  },
  { sameJob: true, order: [1, 3] },
)

same(
  'deduplication of a job that waits in line: the first one runs, once',
  async (side) => {
    await side.add('a', [1])
    const deduplication = { id: 'd' }
    const [job] = await side.add('a', [2], { deduplication })
    await side.add('a', [3], { deduplication })
    const known = await side.own.getDeduplicationJobId('d')
    side.worker()
    await side.add('a', [4])
    await side.ended(3)
    return { known: known === job?.id, order: side.order }
  },
  { known: true, order: [1, 2, 4] },
)

same(
  'removeDeduplicationKey: the id is free while its job waits in line',
  async (side) => {
    await side.add('a', [1])
    const deduplication = { id: 'd' }
    const [job] = await side.add('a', [2], { deduplication })
    const removed = await job?.removeDeduplicationKey()
    await side.add('a', [3], { deduplication })
    const again = await side.own.removeDeduplicationKey('d')
    // eslint-disable-next-line @typescript-eslint/no-deprecated -- It is public all the same.
    const last = await side.own.removeDebounceKey('d')
    side.worker()
    await side.ended(3)
    return { removed, again, last, order: side.order }
  },
  { removed: true, again: 1, last: 0, order: [1, 2, 3] },
)

same(
  'deduplication.extend starts the ttl again',
  async (side) => {
    const deduplication = { id: 'd', ttl: 1_200, extend: true }
    await side.add('a', [0])
    await side.add('a', [1], { deduplication })
    await pause(700)
    await side.add('a', [2], { deduplication })
    await pause(700)
    await side.add('a', [3], { deduplication })
    side.worker()
    return side.orderAfter(2)
  },
  { order: [0, 1] },
)

same(
  'deduplication.replace replaces a delayed job, and holds up nothing',
  async (side) => {
    side.worker()
    const deduplication = { id: 'd', replace: true, ttl: 60_000 }
    await side.add('a', [1], { deduplication, delay: 3_600_000 })
    await side.add('a', [2], { deduplication, delay: 300 })
    await side.add('a', [3])
    return side.orderAfter(2)
  },
  { order: [3, 2] },
)

same(
  'deduplication.replace spares a job that waits in line, as one that waits',
  async (side) => {
    await side.add('a', [1])
    const deduplication = { id: 'd', replace: true }
    await side.add('a', [2], { deduplication })
    await side.add('a', [3], { deduplication })
    side.worker()
    await side.add('a', [4])
    return side.orderAfter(3)
  },
  { order: [1, 2, 4] },
)

same(
  'deduplication.reschedule moves a delayed job, and spares one that waits in line',
  async (side) => {
    await side.add('a', [1])
    await side.add('a', [2], { deduplication: { id: 'w', reschedule: true } })
    await side.add('a', [3], {
      deduplication: { id: 'w', reschedule: true },
      delay: 3_600_000,
    })
    await side.add('a', [4], {
      deduplication: { id: 'd', reschedule: true },
      delay: 3_600_000,
    })
    await side.add('a', [5], { deduplication: { id: 'd', reschedule: true }, delay: 200 })
    side.worker()
    return side.orderAfter(3)
  },
  { order: [1, 2, 4] },
)

/** Adds 1, 2 and 3 under one id while 1 runs (or, with `behind`, waits in line). */
const lastOfThree = async (side: Side): Promise<{ order: readonly number[] }> => {
  const gate = side.gate()
  side.worker(async ({ data }) => {
    if (data.nr === 1) await gate.passed
  })
  const deduplication = { id: 'd', keepLastIfActive: true }
  await side.add('a', [1], { deduplication })
  await side.started(1)
  await side.add('a', [2], { deduplication })
  await side.add('a', [3], { deduplication })
  gate.open()
  await side.ended(2)
  await side.add('a', [9])
  await side.ended(3)
  return { order: side.order }
}

same(
  'deduplication.keepLastIfActive runs the last that was added while the first ran',
  lastOfThree,
  { order: [1, 3, 9] },
)

same(
  'deduplication.keepLastIfActive while the first waits in line: one run, as for any that waits',
  async (side) => {
    const { queue, gate } = await side.behindTheFirst()
    const deduplication = { id: 'd', keepLastIfActive: true }
    await side.addTo(queue, 'a', [1], { deduplication })
    await side.addTo(queue, 'a', [2], { deduplication })
    await side.addTo(queue, 'a', [3])
    gate.open()
    return side.orderAfter(3)
  },
  { order: [0, 1, 3] },
)

differs(
  'dedupe: jobs of two queues that name one resource keep their own results',
  async (side) => {
    const [one, two] = [side.queueName, `${side.queueName}-2`]
    const options = { ours: { dedupe: { resultTtlMs: 60_000 } } }
    const results = new Map<string, unknown[]>()
    for (const name of [one, two]) {
      const worker = side.worker(() => `by ${name === one ? 'one' : 'two'}`, {
        queueName: name,
        ...options,
      })
      worker.on('completed', (_, result) => {
        results.set(name, [...(results.get(name) ?? []), result])
      })
    }
    for (const name of [one, two]) await side.addTo(side.queue({ queueName: name }), 'a', [1, 2])
    await side.until('all are done', () => [...results.values()].flat().length === 4)
    return { one: results.get(one), two: results.get(two), runs: side.runs.length }
  },
  {
    bullmq: { one: ['by one', 'by one'], two: ['by two', 'by two'], runs: 4 },
    ours: { one: ['by one', 'by one'], two: ['by two', 'by two'], runs: 2 },
  },
)

same(
  'a call that follows an add without await finds the job',
  async (side) => {
    const queue = side.queue()
    const add = (id: string): Promise<WorkJob> =>
      queue.add('work', { customer: 'a', nr: 1 }, { jobId: id, deduplication: { id } })
    const calls: Readonly<Record<string, (id: string) => Promise<unknown>>> = {
      remove: (id) => queue.remove(id),
      getJob: async (id) => (await queue.getJob(id))?.id,
      addJobLog: (id) => queue.addJobLog(id, 'seen'),
      removeDeduplicationKey: (id) => queue.removeDeduplicationKey(id),
      getDeduplicationJobId: (id) => queue.getDeduplicationJobId(id),
      drain: () => queue.drain(),
    }
    const found: Record<string, unknown> = {}
    for (const [name, call] of Object.entries(calls)) {
      // Another call of the queue is under way.
      const all = await Promise.all([add('other'), pause(0), add(name), call(name)])
      found[name] = all[3] ?? 'nothing'
    }
    return { ...found, left: await queue.count() }
  },
  {
    ...{ remove: 1, getJob: 'getJob', addJobLog: 1, removeDeduplicationKey: 1 },
    ...{ getDeduplicationJobId: 'getDeduplicationJobId', drain: 'nothing', left: 0 },
  },
)

same(
  'queue.close without await after an add: the job is added',
  async (side) => {
    const add = (): Promise<unknown> => side.own.add('work', { customer: 'a', nr: 1 })
    await add()
    const [added] = await Promise.allSettled([add(), side.own.close()])
    return { added: added.status, count: await side.plainQueue().count() }
  },
  { added: 'fulfilled', count: 2 },
)

same(
  'data that are nothing in JSON: the job has an empty object',
  async (side) => {
    const seen: unknown[] = []
    const queue = side.queue({ ours: { resource: () => 'all' } })
    for (const data of [undefined, () => 1, { toJSON: () => undefined }]) {
      await queue.add('work', data as never)
    }
    await queue.addBulk([{ name: 'work', data: undefined as never }])
    const process = ({ data }: WorkJob): unknown => seen.push(data)
    side.worker(process, { ours: { resource: () => 'all' } })
    await side.until('all ran', () => seen.length === 4)
    return { seen }
  },
  { seen: [{}, {}, {}, {}] },
)
