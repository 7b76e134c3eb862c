/** What groupmq can do for a group, beside the same here, while one of two workers is killed. */
import { monotonicMs } from '../../../test/faults/monotonic.ts'
import { LockedQueue } from '../../built.ts'
import { figure, none, type Figure, type Measured } from '../../report.ts'
import { type Effort, sum, takeTurns } from '../../rounds.ts'
import { newQueueName, type Harness, type Row } from '../harness.ts'
import { resource, type KeyedJob, type Orders } from '../job.ts'
import { killOne } from '../judge.ts'
import { openGroupProducer } from '../peers.ts'

interface AskedJob extends KeyedJob {
  readonly isCancelled?: boolean
}

type Wish = (nr: number, each: number) => Partial<AskedJob>

/** What is asked of the job of a number, of so many in its group. */
const CAPABILITIES: Readonly<Record<string, Wish>> = {
  'one job of a group at a time': () => ({}),
  'order with retries': (nr) => ({ fails: nr % 4 === 1 }),
  'priority in a group': (nr, each) => ({ priority: each - nr }),
  'delayed jobs': () => ({ delayMs: 1_500 }),
  'cancel of waiting jobs': (nr) => ({ isCancelled: nr % 4 === 3 }),
}

const GROUPS = 3
const WORK_MS = 100
const ATTEMPTS = 5
const KINDS = ['lost', 'twice', 'outOfOrder', 'tooEarly', 'cancelledAndRan'] as const

export const capabilities: Row = {
  name: 'capabilities',
  load: `${GROUPS} groups, ${WORK_MS} ms jobs, 2 processes, kill -9 of one while it runs a job`,
  async run(harness, effort): Promise<Measured> {
    const figures: Figure[] = []
    const sides = (['strict', 'groupmq'] as const).slice(0, effort.of(2, 1))
    for (const [name, wish] of Object.entries(CAPABILITIES)) {
      const rounds = await takeTurns(sides, { rounds: effort.rounds }, (side) =>
        damage(harness, effort, side, wish),
      )
      const wrong = sum(KINDS.map((kind) => rounds.sum('strict', kind)))
      figures.push(none(`${name}: jobs that went wrong`, wrong))
      for (const side of sides) {
        const worst = rounds.worst(side, 'stoodStillMs')
        const beside = KINDS.map((kind) => `${kind} ${rounds.sum(side, kind)}`).join(', ')
        figures.push(figure(`… ${side} stood still, worst`, worst, 'ms', { beside }))
      }
    }
    return { figures }
  },
}

async function damage(harness: Harness, effort: Effort, side: 'strict' | 'groupmq', wish: Wish) {
  const each = effort.of(12, 5)
  const queue = newQueueName()
  const jobs = Array.from({ length: each * GROUPS }, (_, index): AskedJob => {
    const nr = Math.floor(index / GROUPS)
    return { key: `${queue}-${index % GROUPS}`, nr, workMs: WORK_MS, ...wish(nr, each) }
  })
  const expected = jobs.filter(({ isCancelled }) => isCancelled !== true)
  const cancelled = jobs.filter(({ isCancelled }) => isCancelled === true)
  const orders = harness.orders(side, queue, 5)
  let addedAt = 0
  const { seen, death, interrupted } = await killOne({
    ...{ orders, expected, ended: GROUPS, running: 1, afterMs: 0 },
    limitMs: effort.of(15_000, 8_000),
    add() {
      addedAt = monotonicMs()
      return side === 'groupmq' ? addGrouped(orders, jobs) : addLocked(orders, jobs)
    },
  })
  await harness.clear(side, queue)
  const runsOf = ({ key, nr }: KeyedJob) => seen.filter((one) => one.key === key && one.nr === nr)
  const endsOf = (job: KeyedJob) => runsOf(job).filter(({ report }) => report === 'left')
  const starts = seen.filter(({ report }) => report === 'entered')
  const placeOf = ({ priority, nr }: KeyedJob): number => priority ?? nr
  // It starts before the end of a job of its group that comes first.
  const outOfOrder = starts.filter(({ key, nr, at }) => {
    const own = jobs.find((job) => job.key === key && job.nr === nr)
    const before = expected.filter((job) => job.key === key && own && placeOf(job) < placeOf(own))
    return before.some((job) => !endsOf(job).some((end) => end.at <= at))
  })
  const standstills = interrupted.map((run) => {
    const next = starts.filter(({ key, at }) => key === run.key && at > death.at)
    return Math.min(Infinity, ...next.map(({ at }) => at)) - death.at
  })
  const isTooEarly = (job: KeyedJob): boolean =>
    runsOf(job).some(({ at }) => at < addedAt + (job.delayMs ?? 0))
  return {
    lost: expected.filter((job) => endsOf(job).length === 0).length,
    twice: expected.filter((job) => endsOf(job).length > 1).length,
    outOfOrder: outOfOrder.length,
    tooEarly: jobs.filter(isTooEarly).length,
    cancelledAndRan: cancelled.filter((job) => runsOf(job).length > 0).length,
    /** From the kill until the next start in a group of which the dead process ran a job. */
    stoodStillMs: Math.max(0, ...standstills),
  }
}

async function addGrouped(orders: Orders, jobs: readonly AskedJob[]): Promise<void> {
  const producer = await openGroupProducer(orders)
  const ids = await producer.add(jobs, ATTEMPTS)
  for (const id of ids.filter((_, index) => jobs[index]?.isCancelled)) await producer.remove(id)
  await producer.close()
}

async function addLocked(orders: Orders, jobs: readonly AskedJob[]): Promise<void> {
  const { queue: name, connection } = orders
  const queue = new LockedQueue<KeyedJob>(name, { connection, resource, within: 'priority' })
  const added = await queue.addBulk(
    jobs.map((data) => {
      const { delayMs: delay = 0, priority = 0 } = data
      return { name: 'job', data, opts: { attempts: ATTEMPTS, delay, priority } }
    }),
  )
  const cancelled = added.filter((_, index) => jobs[index]?.isCancelled)
  for (const { id = '' } of cancelled) await queue.cancel(id)
  await queue.close()
}
