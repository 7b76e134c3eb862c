/** What a line and a lease cost, beside plain BullMQ that keeps no order, and beside groupmq. */
import { figure, none, type Figure } from '../../report.ts'
import { type Effort, type Rounds, takeTurns, type Value } from '../../rounds.ts'
import { inTurns, type Harness, type Load, type Outcome, type Row } from '../harness.ts'
import { BATCH_SIZE, type Contender } from '../job.ts'

type Outcomes = Rounds<Contender, Outcome>

function outcomesOf(
  harness: Harness,
  effort: Effort,
  contenders: readonly Contender[],
  load: Load | ((contender: Contender) => Load),
): Promise<Outcomes> {
  return takeTurns(contenders, effort, (name) =>
    harness.run(name, typeof load === 'function' ? load(name) : load),
  )
}

const order = (outcomes: Outcomes, contender: Contender = 'strict'): readonly Figure[] => [
  none('inversions', outcomes.worst(contender, 'inversions')),
  none('two jobs of a line at once', outcomes.worst(contender, 'overlaps')),
]

type Limit = readonly [must: number, aim?: number]

function limits(direction: 'atLeast' | 'atMost', [must, aim]: Limit | [] = []): Partial<Figure> {
  return must === undefined ? {} : { [direction]: must, ...(aim !== undefined && { aim }) }
}

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
  /** Of plain BullMQ's. */
  readonly throughput: Limit
  /** Of groupmq's. */
  readonly groupmq?: Limit
  readonly clientCpu?: Limit
  readonly queueCpu?: Limit
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
      const contenders = (['plain', 'strict', 'groupmq'] as const).slice(0, shape.groupmq ? 3 : 2)
      const load = { jobs, concurrency, processes, kept }
      const outcomes = await outcomesOf(harness, effort, contenders, load)
      const speed = (of: 'plain' | 'groupmq', limit: Limit): Figure => {
        const title = `throughput of ${of === 'plain' ? 'plain BullMQ' : of}`
        return figure(
          title,
          outcomes.ratio('strict', of, 'jobsPerSecond'),
          'x',
          limits('atLeast', limit),
        )
      }
      /** Beside that of plain BullMQ in the same round. */
      const cost = (what: string, value: Value<Outcome>, limit?: Limit): Figure => {
        const own = outcomes.median('strict', value).toFixed(1)
        const beside = `${own}, plain BullMQ ${outcomes.median('plain', value).toFixed(1)}`
        const ratio = outcomes.ratio('strict', 'plain', value)
        return figure(`${what} per job, of plain BullMQ`, ratio, 'x', {
          ...limits('atMost', limit),
          beside,
        })
      }
      const figures = [
        speed('plain', shape.throughput),
        ...(shape.groupmq ? [speed('groupmq', shape.groupmq)] : []),
        cost('client CPU', 'clientUs', shape.clientCpu),
        cost("queue's Redis CPU", 'queueUs', shape.queueCpu),
        cost("scripts at the queue's Redis", 'queueScripts'),
        cost("commands at the queue's Redis", 'queueCommands'),
      ]
      return { figures: [...figures, ...order(outcomes)] }
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
      const outcomes = await outcomesOf(harness, effort, ['plain', 'strict'], (contender) =>
        contender === 'plain' ? alone : { jobs, concurrency: 5 },
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
    const outcomes = await outcomesOf(harness, effort, ['plain', 'strict'], load)
    const share = outcomes.spread('strict', 'busiestShare')
    const speed = outcomes.ratio('strict', 'plain', 'jobsPerSecond')
    const figures = [
      figure('share of the busiest process', share, '%', { atMost: 40 }),
      figure('throughput of plain BullMQ', speed, 'x', { atLeast: 0.55, aim: 0.7 }),
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
    const outcomes = await outcomesOf(harness, effort, ['batch', 'strict'], load)
    const ratio = outcomes.ratio('batch', 'strict', 'jobsPerSecond')
    const inversions = none('inversions', outcomes.worst('batch', 'inversions'))
    return {
      figures: [figure('throughput of single jobs', ratio, 'x', { atLeast: 3 }), inversions],
    }
  },
}
