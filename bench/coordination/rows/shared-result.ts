/** One computation for many jobs that want the same result. */
import { newQueueName, type Load, type Outcome } from '../harness.ts'
import { median } from '../judge.ts'
import { reference, type Row } from '../row.ts'
import { CONCURRENCY } from './rounds.ts'

export const sharedResult: Row = {
  name: 'shared-result',
  load: `100 jobs that want the same result of 200 ms, 4 processes × ${CONCURRENCY}`,
  async run(harness, { rounds, smoke }) {
    const outcomes: Outcome[] = []
    for (let round = 0; round < rounds; round++) {
      const key = newQueueName() // Results of earlier rounds are kept for a while.
      const count = smoke ? 20 : 100
      const jobs = Array.from({ length: count }, (_, nr) => ({ key, nr, workMs: 200 }))
      const load: Load = { jobs, concurrency: CONCURRENCY, added: 'after' }
      outcomes.push(await harness.run('dedupe', load))
    }
    return [
      {
        name: 'computations',
        value: Math.max(...outcomes.map(({ runs }) => runs.length)),
        must: { atLeast: 1, atMost: 1 },
        kind: 'correctness',
      },
      reference(
        'until all jobs have the result',
        median(outcomes.map(({ tookMs }) => tookMs)),
        'ms',
      ),
    ]
  },
}
