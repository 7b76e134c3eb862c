/** What a sharded queue of one shard costs, beside the queue that it is. */
import { takeTurns } from '../../rounds.ts'
import { inTurns, newQueueName, type Harness, type Outcome } from '../harness.ts'
import type { Contender } from '../job.ts'
import { reference, speed, type Row } from '../row.ts'
import { clientUs, queueUs } from './rounds.ts'

const LINES = 500
const EACH = 20
const SINGLE = 2_000
const MUST = { must: { atMost: 1.03 } } as const

interface Measured {
  readonly outcome: Outcome
  /** For a job that is added alone. */
  readonly addMs: number
}

export const facade: Row = {
  name: 'facade',
  load: `one shard beside a LockedQueue: ${SINGLE} adds; ${LINES} lines × ${EACH} jobs that do nothing, 1 process × 25`,
  async run(harness, extent) {
    const all = await takeTurns(['strict', 'sharded'] as const, extent, (one) =>
      measured(harness, one, extent.smoke ? 10 : 1),
    )
    const ratio = (of: (one: Measured) => number): number =>
      all.compared('sharded', 'strict', (ours, plain) => of(ours) / of(plain)).median
    const time = ratio(({ outcome }) => outcome.makespanMs)
    return [
      speed('time of a LockedQueue, jobs', time, 'x', MUST),
      speed(
        'time of a LockedQueue, one add',
        ratio(({ addMs }) => addMs),
        'x',
        MUST,
      ),
      reference(
        'client CPU of a LockedQueue',
        ratio(({ outcome }) => clientUs(outcome)),
        'x',
      ),
      reference(
        "queue's Redis CPU of a LockedQueue",
        ratio(({ outcome }) => queueUs(outcome)),
        'x',
      ),
    ]
  },
}

async function measured(harness: Harness, contender: Contender, part: number): Promise<Measured> {
  const queue = harness.open(contender, newQueueName())
  await queue.waitUntilReady()
  const singles = inTurns(LINES, SINGLE / LINES, 0).slice(0, SINGLE / part)
  const startedAt = performance.now()
  for (const data of singles) await queue.add('job', data)
  const addMs = (performance.now() - startedAt) / singles.length
  await queue.close()
  await harness.queueRedis.flushall()
  const jobs = inTurns(LINES / part, EACH, 0)
  const outcome = await harness.run(contender, { jobs, concurrency: 25, processes: 1, kept: false })
  return { outcome, addMs }
}
