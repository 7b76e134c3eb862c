/** Jobs that leave a line without running: the next job of the line must not wait for them. */
import type { BulkJobOptions, Queue } from 'bullmq'
import type { Contender, KeyedJob } from '../job.ts'
import { median } from '../../statistics.ts'
import { newQueueName, type Harness } from '../harness.ts'
import { none, speed, type Figure, type Row } from '../row.ts'

const WAYS = ['remove', 'drain', 'drain delayed', 'obliterate', 'throttle'] as const
type Way = (typeof WAYS)[number]

const HOUR_MS = 3_600_000
const LIMIT_MS = 10_000
const BLOCKER = 'blocker'
const REMOVE_AT_ONCE = 100

interface Next {
  /** From the end of the job that kept the only slot busy. */
  readonly startedAfterMs: number
  /** Jobs that ran although they had been removed. */
  readonly ghosts: number
}

export const deadPlaces: Row = {
  name: 'dead-places',
  load: 'the next job of a line after 1, 10 and 1,000 jobs that were removed in one way, 1 slot',
  async run(harness, { rounds, smoke }) {
    const counts = smoke ? [1, 10] : [1, 10, 1_000]
    const limitMs = smoke ? LIMIT_MS / 4 : LIMIT_MS
    const excess = new Map<string, number[]>()
    const ghosts = new Map<Way, number>()
    for (let round = 0; round < rounds; round++) {
      for (const way of WAYS) {
        for (const count of counts) {
          const scene = { way, count, limitMs }
          const plain = await afterDeadPlaces(harness, 'plain', scene)
          const ours = await afterDeadPlaces(harness, 'strict', scene)
          const values = excess.get(`${way} ${count}`) ?? []
          values.push(ours.startedAfterMs - plain.startedAfterMs)
          excess.set(`${way} ${count}`, values)
          ghosts.set(way, Math.max(ghosts.get(way) ?? 0, ours.ghosts))
        }
      }
    }
    return WAYS.flatMap((way): readonly Figure[] => {
      const medians = counts.map((count) => median(excess.get(`${way} ${count}`) ?? []))
      const parts = counts.map((count, index) => `${count}: ${inMs(medians[index] ?? NaN)}`)
      return [
        speed(`${way}: the next job starts after plain BullMQ's`, Math.max(...medians), 'ms', {
          must: { atMost: 250 },
          aim: { atMost: 20 },
          note: parts.join(', '),
        }),
        none(`${way}: removed jobs that ran`, ghosts.get(way) ?? 0),
      ]
    })
  },
}

async function afterDeadPlaces(
  harness: Harness,
  contender: Contender,
  scene: { readonly way: Way; readonly count: number; readonly limitMs: number },
): Promise<Next> {
  const { way, count, limitMs } = scene
  const name = newQueueName()
  const line = `${name}-line`
  const queue = harness.open(contender, name)
  const worker = harness.processes.one
  const dead = Array.from({ length: count }, (_, nr) => ({ key: line, nr, workMs: 0 }))
  if (way === 'obliterate') await obliterated(queue, dead)
  await harness.processes.work({ ...harness.orders(contender, name, 1), announce: true }, 1)
  if (way === 'throttle') {
    await add(queue, dead, throttled)
    await harness.processes.completed(count)
  }
  // A job of another line keeps the only slot busy while the dead places come about.
  const blocking = worker.next('entered', limitMs, ({ key }) => key === BLOCKER + name)
  await queue.add('job', { key: BLOCKER + name, nr: 0, workMs: 0, held: true })
  await blocking
  let ghosts = 0
  const unlisten = worker.listen((report) => {
    if (report.report === 'entered' && report.key === line && report.nr < count) ghosts++
  })
  await kill(queue, way, dead)
  await queue.add('job', { key: line, nr: count, workMs: 0 })
  const unblocked = worker.next('left', limitMs, ({ key }) => key === BLOCKER + name)
  const started = worker
    .next('entered', limitMs, ({ key, nr }) => key === line && nr === count)
    .catch(() => undefined) // It did not start in time.
  worker.release()
  const from = (await unblocked).at
  const to = (await started)?.at ?? Infinity
  unlisten()
  await harness.stop()
  await queue.close()
  return { startedAfterMs: to - from, ghosts }
}

/** Makes the jobs and lets them die while nothing of their line runs. */
async function kill(queue: Queue<KeyedJob>, way: Way, dead: readonly KeyedJob[]): Promise<void> {
  switch (way) {
    case 'remove': {
      const jobs = await add(queue, dead)
      for (let from = 0; from < jobs.length; from += REMOVE_AT_ONCE) {
        const some = jobs.slice(from, from + REMOVE_AT_ONCE)
        await Promise.all(some.map(({ id = '' }) => queue.remove(id)))
      }
      return
    }
    case 'drain':
    case 'drain delayed':
      await add(queue, dead)
      await queue.drain(way === 'drain delayed')
      return
    case 'throttle':
      await add(queue, dead, throttled) // Each is the duplicate of a job that is completed.
      return
    case 'obliterate':
      return // Was done before the workers came.
  }
}

/** Afterwards the ids begin at 1 again, and belong to jobs of another line that are due later. */
async function obliterated(queue: Queue<KeyedJob>, dead: readonly KeyedJob[]): Promise<void> {
  await add(queue, dead)
  await queue.obliterate({ force: true })
  const others = dead.map((job) => ({ ...job, key: `${job.key}-of-another` }))
  await add(queue, others, () => ({ delay: HOUR_MS }))
}

function add(
  queue: Queue<KeyedJob>,
  jobs: readonly KeyedJob[],
  opts: (job: KeyedJob) => BulkJobOptions = () => ({}),
): Promise<readonly { id?: string }[]> {
  return queue.addBulk(jobs.map((data) => ({ name: 'job', data, opts: opts(data) })))
}

function throttled({ nr }: KeyedJob): BulkJobOptions {
  return { deduplication: { id: `once-${nr}`, ttl: HOUR_MS } }
}

function inMs(value: number): string {
  return value === Infinity ? 'never' : `${value.toFixed(1)} ms`
}
