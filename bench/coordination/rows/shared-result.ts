/** One computation for many jobs that want the same result. */
import { newQueueName, type Load } from '../harness.ts'
import { reference, type Row } from '../row.ts'
import { CONCURRENCY, rounds } from './rounds.ts'

export const sharedResult: Row = {
  name: 'shared-result',
  load: `100 jobs that want the same result of 200 ms, 4 processes × ${CONCURRENCY}`,
  async run(harness, extent) {
    const outcomes = await rounds(harness, extent, ['dedupe'], (): Load => {
      const key = newQueueName() // Results of earlier rounds are kept for a while.
      const count = extent.smoke ? 20 : 100
      const jobs = Array.from({ length: count }, (_, nr) => ({ key, nr, workMs: 200 }))
      return { jobs, concurrency: CONCURRENCY, added: 'after' }
    })
    const tookMs = outcomes.median('dedupe', (outcome) => outcome.tookMs)
    return [
      {
        ...{ name: 'computations', must: { atLeast: 1, atMost: 1 }, kind: 'correctness' },
        value: outcomes.worst('dedupe', ({ runs }) => runs.length),
      },
      reference('until all jobs have the result', tookMs, 'ms'),
    ]
  },
}
