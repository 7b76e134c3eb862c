/** What a batch saves where jobs do nothing. */
import { inTurns } from '../harness.ts'
import { BATCH_SIZE } from '../job.ts'
import { none, reference, type Row } from '../row.ts'
import { rounds } from './rounds.ts'

const JOBS = { whole: 4_000, smoke: 200 }

export const batches: Row = {
  name: 'batches',
  load: `one line of ${JOBS.whole} jobs that do nothing, batches of ${BATCH_SIZE}, 1 process × 1`,
  async run(harness, extent) {
    const jobs = inTurns(1, extent.smoke ? JOBS.smoke : JOBS.whole, 0)
    const load = { jobs, concurrency: 1, processes: 1 }
    const outcomes = await rounds(harness, extent, ['batch', 'strict'], load)
    return [
      {
        ...{ name: 'throughput of single jobs', unit: 'x', kind: 'speed', must: { atLeast: 3 } },
        value: outcomes.compared(
          'batch',
          'strict',
          (batch, one) => one.makespanMs / batch.makespanMs,
        ),
      },
      ...(['batch', 'strict'] as const).map((contender) =>
        reference(
          `jobs per second, ${contender}`,
          outcomes.median(contender, ({ makespanMs, runs }) => (runs.length / makespanMs) * 1e3),
        ),
      ),
      reference(
        "queue's Redis CPU per job",
        outcomes.median('batch', ({ queue }) => queue.cpuUs),
        'µs',
      ),
      none(
        'inversions',
        outcomes.worst('batch', ({ inversions }) => inversions),
      ),
    ]
  },
}
