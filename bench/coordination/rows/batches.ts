/** What a batch saves where jobs do nothing. */
import { inTurns } from '../harness.ts'
import { BATCH_SIZE } from '../job.ts'
import { reference, type Row } from '../row.ts'
import { jobsPerSecond, noInversions, queueUs, rounds } from './rounds.ts'

const JOBS = { whole: 4_000, smoke: 200 }
const CONTENDERS = ['batch', 'strict'] as const

export const batches: Row = {
  name: 'batches',
  load: `one line of ${JOBS.whole} jobs that do nothing, batches of ${BATCH_SIZE}, 1 process × 1`,
  async run(harness, extent) {
    const jobs = inTurns(1, extent.smoke ? JOBS.smoke : JOBS.whole, 0)
    const load = { jobs, concurrency: 1, processes: 1 }
    const outcomes = await rounds(harness, extent, CONTENDERS, load)
    const faster = outcomes.compared('batch', 'strict', (batch, one) => {
      return one.makespanMs / batch.makespanMs
    })
    return [
      reference('throughput of single jobs', faster.median, 'x'),
      ...CONTENDERS.map((contender) =>
        reference(`jobs per second, ${contender}`, outcomes.median(contender, jobsPerSecond)),
      ),
      reference("queue's Redis CPU per job", outcomes.median('batch', queueUs), 'µs'),
      noInversions(outcomes, 'batch'),
    ]
  },
}
