/** What a line and a lease cost, beside plain BullMQ that keeps no order, and beside groupmq. */
import { figure, none, type Figure } from '../../report.ts'
import { median, takeTurns, type Rounds, type Value } from '../../rounds.ts'
import { inTurns, newQueueName, type Outcome, type Row } from '../harness.ts'
import { BATCH_SIZE, type KeyedJob } from '../job.ts'

const BOTH = ['plain', 'strict'] as const

const order = (outcomes: Pick<Rounds<'strict', Outcome>, 'worst'>): readonly Figure[] => [
  none('inversions', outcomes.worst('strict', 'inversions')),
  none('two jobs of a line at once', outcomes.worst('strict', 'overlaps')),
]

interface Shape {
  readonly lines: number
  readonly each: number
  readonly processes: number
  readonly concurrency: number
  /** @defaultValue 0 */
  readonly workMs?: number
  /** So much more or less, so that no two end together. @defaultValue 0 */
  readonly spreadMs?: number
  /** Jobs that are done are kept, as BullMQ does by default. */
  readonly kept?: boolean
  /** At least, of plain BullMQ's. */
  readonly throughput: number
  /** At least, of groupmq's. */
  readonly groupmq?: number
  /** At most, of plain BullMQ's. */
  readonly clientCpu?: number
  readonly queueCpu?: number
}

export function throughput(name: string, shape: Shape): Row {
  const { lines, each, processes, concurrency, workMs = 0, spreadMs = 0, kept = false } = shape
  const work =
    workMs === 0 ? 'that do nothing' : `of ${workMs - spreadMs} to ${workMs + spreadMs} ms`
  const end = kept ? 'kept' : 'removed'
  return {
    name,
    load: `${lines} lines × ${each} jobs ${work}, ${end} when done, processes × slots: ${processes} × ${concurrency}`,
    async run(harness, effort) {
      const jobs = inTurns(lines, effort.of(each, Math.ceil(each / 10)), workMs, spreadMs)
      const contenders = [...BOTH, ...(shape.groupmq === undefined ? [] : ['groupmq' as const])]
      const load = { jobs, concurrency, processes, kept }
      const outcomes = await takeTurns(contenders, effort, (name) => harness.run(name, load))
      const speed = (title: string, of: 'plain' | 'groupmq', atLeast?: number): Figure =>
        figure(title, outcomes.ratio('strict', of, 'jobsPerSecond'), 'x', { atLeast })
      /** Beside that of plain BullMQ in the same round. */
      const cost = (what: string, value: Value<Outcome>, atMost?: number): Figure => {
        const own = outcomes.median('strict', value).toFixed(1)
        const beside = `${own}, plain BullMQ ${outcomes.median('plain', value).toFixed(1)}`
        const ratio = outcomes.ratio('strict', 'plain', value)
        return figure(`${what} per job, of plain BullMQ`, ratio, 'x', { atMost, beside })
      }
      return {
        figures: [
          speed('throughput of plain BullMQ', 'plain', shape.throughput),
          ...(shape.groupmq === undefined
            ? []
            : [speed('throughput of groupmq', 'groupmq', shape.groupmq)]),
          cost('client CPU', 'clientUs', shape.clientCpu),
          cost("queue's Redis CPU", 'queueUs', shape.queueCpu),
          cost("scripts at the queue's Redis", 'queueScripts'),
          cost("commands at the queue's Redis", 'queueCommands'),
          ...order(outcomes),
        ],
      }
    },
  }
}

/** Jobs that compete for a few lines: how close the whole load comes to plain BullMQ. */
export function makespan(lines: number, each: number, workMs: number, atMost: number): Row {
  return {
    name: lines === 1 ? 'one-line' : 'twelve-lines',
    load: `${lines} × ${each} jobs × ${workMs} ms, 4 processes × 5; plain BullMQ with as many slots as lines`,
    async run(harness, effort) {
      const jobs = inTurns(lines, effort.of(each, Math.ceil(each / 10)), workMs)
      // The jobs of a line can only run one after the other: more slots would not be comparable.
      const processes = lines % 4 === 0 ? 4 : 1
      const alone = { jobs, concurrency: lines / processes, processes }
      const outcomes = await takeTurns(BOTH, effort, (contender) =>
        harness.run(contender, contender === 'plain' ? alone : { jobs, concurrency: 5 }),
      )
      const ratio = outcomes.ratio('strict', 'plain', 'makespanMs')
      const figures = [figure('makespan of plain BullMQ', ratio, 'x', { atMost })]
      return { figures: [...figures, ...order(outcomes)] }
    },
  }
}

/** Whether a few lines are worked by all processes, or by the one that began. */
export const spread: Row = {
  name: 'spread',
  load: '20 lines × 500 jobs that do nothing, 4 processes × 25',
  async run(harness, effort) {
    const load = { jobs: inTurns(20, effort.of(500, 30), 0), concurrency: 25, kept: false }
    const outcomes = await takeTurns(BOTH, effort, (contender) => harness.run(contender, load))
    const share = outcomes.spread('strict', 'busiestShare')
    const speed = outcomes.ratio('strict', 'plain', 'jobsPerSecond')
    const figures = [
      figure('share of the busiest process', share, '%', { atMost: 40 }),
      figure('throughput of plain BullMQ', speed, 'x', { atLeast: 0.55 }),
    ]
    return { figures: [...figures, ...order(outcomes)] }
  },
}

/** What a batch saves where jobs do nothing. */
export const batches: Row = {
  name: 'batches',
  load: `one line of 4,000 jobs that do nothing, batches of ${BATCH_SIZE}, 1 process × 1`,
  async run(harness, effort) {
    const load = { jobs: inTurns(1, effort.of(4_000, 200), 0), concurrency: 1, processes: 1 }
    const outcomes = await takeTurns(['batch', 'strict'] as const, effort, (contender) =>
      harness.run(contender, load),
    )
    const ratio = outcomes.ratio('batch', 'strict', 'jobsPerSecond')
    const inversions = none('inversions', outcomes.worst('batch', 'inversions'))
    return {
      figures: [figure('throughput of single jobs', ratio, 'x', { atLeast: 3 }), inversions],
    }
  },
}

/** What a sharded queue of one shard costs, beside the queue that it is. */
export const facade: Row = {
  name: 'facade',
  load: 'one shard beside a LockedQueue: 2 000 adds; 500 lines × 20 jobs that do nothing',
  async run(harness, effort) {
    const lines = effort.of(500, 50)
    const all = await takeTurns(['strict', 'sharded'] as const, effort, async (contender) => {
      const queue = harness.open(contender, newQueueName())
      await queue.waitUntilReady()
      const startedAt = performance.now()
      for (const data of inTurns(lines, 4, 0)) await queue.add('job', data)
      const addMs = performance.now() - startedAt
      await queue.close()
      await harness.queueRedis.flushall()
      const load = { concurrency: 25, processes: 1, kept: false, jobs: inTurns(lines, 20, 0) }
      const { makespanMs } = await harness.run(contender, load)
      return { addMs, makespanMs }
    })
    const cost = (what: 'makespanMs' | 'addMs'): ReturnType<typeof all.ratio> =>
      all.ratio('sharded', 'strict', what)
    return {
      figures: [
        figure('time of a LockedQueue, jobs', cost('makespanMs'), 'x', { atMost: 1.03 }),
        figure('time of a LockedQueue, one add', cost('addMs'), 'x', { atMost: 1.03 }),
      ],
    }
  },
}

const LINES = 50
const BATCH = 1_000
const BATCHES = 3
const IN_A_TICK = 25
const TICKS = 40

export const addBulk: Row = {
  name: 'add-bulk',
  load: `${LINES} busy lines: addBulk of ${BATCH} jobs; ${IN_A_TICK} adds in a tick`,
  async run(harness, effort) {
    const all = await takeTurns(BOTH, effort, async (contender) => {
      const queue = harness.open(contender, newQueueName())
      const jobs = inTurns(LINES, BATCH / LINES, 0)
      const bulk = (some: readonly KeyedJob[]): Promise<unknown> =>
        queue.addBulk(some.map((data) => ({ name: 'job', data })))
      await bulk(jobs.slice(0, 2 * LINES)) // The lines are busy now: each has a head and one more.
      const times: number[] = []
      for (let batch = 0; batch < BATCHES; batch++) {
        const startedAt = performance.now()
        await bulk(jobs)
        times.push(performance.now() - startedAt)
      }
      const startedAt = performance.now()
      for (let tick = 0; tick < TICKS; tick++) {
        const some = jobs.slice(tick * IN_A_TICK, (tick + 1) * IN_A_TICK)
        await Promise.all(some.map((data) => queue.add('job', data)))
      }
      const ticksMs = performance.now() - startedAt
      await queue.close()
      await harness.queueRedis.flushall()
      return { batchMs: median(times), ticksMs }
    })
    const batch = all.ratio('strict', 'plain', 'batchMs')
    const ticks = all.ratio('strict', 'plain', 'ticksMs')
    const inTicks = `${IN_A_TICK} adds in a tick, time of plain BullMQ`
    return {
      figures: [
        figure('addBulk, time of plain BullMQ', batch, 'x', { atMost: 1.2 }),
        figure(inTicks, ticks, 'x', { atMost: 1.5 }),
      ],
    }
  },
}
