/** What it costs a producer to add jobs behind others. */
import { performance } from 'node:perf_hooks'
import type { Contender, KeyedJob } from '../job.ts'
import { median } from '../judge.ts'
import { inTurns, newQueueName, perJob, type Effort, type Harness } from '../harness.ts'
import { reference, type Row } from '../row.ts'

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
  async run(harness, { rounds, smoke }) {
    const plain: Added[] = []
    const ours: Added[] = []
    for (let round = smoke ? 0 : -1; round < rounds; round++) {
      const both = [await adding(harness, 'plain'), await adding(harness, 'strict')] as const
      if (round < 0) continue
      plain.push(both[0])
      ours.push(both[1])
    }
    const ratio = (of: (added: Added) => number): number =>
      median(
        ours.flatMap((added, round) => {
          const beside = plain[round]
          return beside === undefined ? [] : [of(added) / of(beside)]
        }),
      )
    const limits = { unit: 'x', kind: 'speed', aim: { atMost: 1.4 } } as const
    return [
      {
        ...limits,
        name: 'time of plain BullMQ',
        value: ratio(({ batchMs }) => batchMs),
        must: { atMost: 2 },
      },
      {
        ...limits,
        name: 'commands of plain BullMQ',
        value: ratio(({ batch }) => batch.commands),
        must: { atMost: 1.7 },
      },
      reference('commands per job', median(ours.map(({ batch }) => batch.commands))),
      reference('… plain BullMQ', median(plain.map(({ batch }) => batch.commands))),
      reference(
        "queue's Redis CPU of plain BullMQ",
        ratio(({ batch }) => batch.cpuUs),
        'x',
      ),
      reference(
        'one add, time of plain BullMQ',
        ratio(({ singleMs }) => singleMs),
        'x',
      ),
      reference('one add, commands', median(ours.map(({ single }) => single.commands))),
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
