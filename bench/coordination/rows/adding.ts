/** What it costs a producer to add jobs behind others. */
import { takeTurns } from '../../rounds.ts'
import { median } from '../../statistics.ts'
import type { Contender, KeyedJob } from '../job.ts'
import { inTurns, newQueueName, perJob, type Effort, type Harness } from '../harness.ts'
import { reference, speed, type Row } from '../row.ts'

const BATCH = 1_000
const LINES = 50
const BATCHES = 3
const SINGLE = 200

interface Added {
  /** For one batch. */
  readonly batchMs: number
  readonly batch: Effort
  /** For one job that is added alone. */
  readonly singleMs: number
  readonly single: Effort
}

export const addBulk: Row = {
  name: 'add-bulk',
  load: `addBulk of ${BATCH} jobs to ${LINES} busy lines; add of one job to a busy line`,
  async run(harness, extent) {
    const contenders = ['plain', 'strict'] as const
    const all = await takeTurns(contenders, extent, (one) => adding(harness, one))
    const ratio = (of: (added: Added) => number): number =>
      all.compared('strict', 'plain', (ours, plain) => of(ours) / of(plain)).median
    const batchMs = ratio((added) => added.batchMs)
    const singleMs = ratio((added) => added.singleMs)
    const commands = ({ batch }: Added): number => batch.commands
    const aim = { atMost: 1.4 }
    return [
      speed('time of plain BullMQ', batchMs, 'x', { must: { atMost: 2 }, aim }),
      speed('commands of plain BullMQ', ratio(commands), 'x', { must: { atMost: 1.7 }, aim }),
      reference('commands per job', all.median('strict', commands)),
      reference('… plain BullMQ', all.median('plain', commands)),
      reference(
        "queue's Redis CPU of plain BullMQ",
        ratio(({ batch }) => batch.cpuUs),
        'x',
      ),
      reference('one add, time of plain BullMQ', singleMs, 'x'),
      reference(
        'one add, commands',
        all.median('strict', ({ single }) => single.commands),
      ),
    ]
  },
}

async function adding(harness: Harness, contender: Contender): Promise<Added> {
  const queue = harness.open(contender, newQueueName())
  const jobs = inTurns(LINES, BATCH / LINES, 0)
  const bulk = (some: readonly KeyedJob[]): Promise<unknown> =>
    queue.addBulk(some.map((data) => ({ name: 'job', data })))
  await bulk(jobs.slice(0, 2 * LINES)) // The lines are busy now: each has a head and one behind it.
  const before = await harness.queueEffort()
  const times: number[] = []
  for (let batch = 0; batch < BATCHES; batch++) {
    const startedAt = performance.now()
    await bulk(jobs)
    times.push(performance.now() - startedAt)
  }
  const between = await harness.queueEffort()
  const startedAt = performance.now()
  for (const data of jobs.slice(0, SINGLE)) await queue.add('job', data)
  const singleMs = (performance.now() - startedAt) / SINGLE
  const after = await harness.queueEffort()
  await queue.close()
  await harness.queueRedis.flushall()
  return {
    batchMs: median(times),
    batch: perJob(before, between, BATCHES * BATCH),
    singleMs,
    single: perJob(between, after, SINGLE),
  }
}
