/** What it costs a producer to add jobs behind others. */
import { takeTurns } from '../../rounds.ts'
import { median } from '../../statistics.ts'
import type { Contender, KeyedJob } from '../job.ts'
import { inTurns, newQueueName, perJob, type Effort, type Harness } from '../harness.ts'
import { reference, speed, type Row } from '../row.ts'

const BATCH = 1_000
const LINES = 50
const BATCHES = 3
const IN_A_TICK = 25
const TICKS = 40
const SINGLE = 200

interface Added {
  /** For one batch. */
  readonly batchMs: number
  readonly batch: Effort
  /** For a job of those that are added in one turn of the event loop. */
  readonly tickMs: number
  /** For one job that is added alone. */
  readonly singleMs: number
  readonly single: Effort
}

export const addBulk: Row = {
  name: 'add-bulk',
  load: `${LINES} busy lines: addBulk of ${BATCH} jobs; ${IN_A_TICK} adds in a tick; one add`,
  async run(harness, extent) {
    const contenders = ['plain', 'strict'] as const
    const all = await takeTurns(contenders, extent, (one) => adding(harness, one))
    const ratio = (of: (added: Added) => number): number =>
      all.compared('strict', 'plain', (ours, plain) => of(ours) / of(plain)).median
    const batchMs = ratio((added) => added.batchMs)
    const singleMs = ratio((added) => added.singleMs)
    const commands = ({ batch }: Added): number => batch.commands
    const tickMs = ratio((added) => added.tickMs)
    const bulk = { must: { atMost: 1.2 }, aim: { atMost: 0.85 } }
    const tick = { must: { atMost: 1.5 }, aim: { atMost: 1.3 } }
    return [
      speed('addBulk, time of plain BullMQ', batchMs, 'x', bulk),
      speed(`${IN_A_TICK} adds in a tick, time of plain BullMQ`, tickMs, 'x', tick),
      reference('commands of plain BullMQ', ratio(commands), 'x'),
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
  const ticked = await harness.queueEffort()
  const tickedAt = performance.now()
  for (let tick = 0; tick < TICKS; tick++) {
    const some = jobs.slice(tick * IN_A_TICK, (tick + 1) * IN_A_TICK)
    await Promise.all(some.map((data) => queue.add('job', data)))
  }
  const tickMs = (performance.now() - tickedAt) / (TICKS * IN_A_TICK)
  const between = await harness.queueEffort()
  const startedAt = performance.now()
  for (const data of jobs.slice(0, SINGLE)) await queue.add('job', data)
  const singleMs = (performance.now() - startedAt) / SINGLE
  const after = await harness.queueEffort()
  await queue.close()
  await harness.queueRedis.flushall()
  return {
    batchMs: median(times),
    batch: perJob(before, ticked, BATCHES * BATCH),
    tickMs,
    singleMs,
    single: perJob(between, after, SINGLE),
  }
}
