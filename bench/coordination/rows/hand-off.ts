/** How long it takes from the end of a job to the start of the next one of its line. */
import type { KeyedJob } from '../job.ts'
import { judge } from '../judge.ts'
import { median, percentile } from '../../statistics.ts'
import { newQueueName } from '../harness.ts'
import { reference, speed, type Row } from '../row.ts'
import { CONCURRENCY } from './rounds.ts'

export const handOff: Row = {
  name: 'hand-off',
  load: `1 line × 100 jobs × 5 ms, alone and before 5,000 jobs of other lines, 4 × ${CONCURRENCY}`,
  async run(harness, { rounds, smoke }) {
    const key = newQueueName()
    const hot = Array.from({ length: smoke ? 30 : 100 }, (_, nr) => ({ key, nr, workMs: 5 }))
    const others = Array.from({ length: smoke ? 100 : 5_000 }, (_, index) => ({
      key: `${key}-other-${index}`,
      nr: 0,
      workMs: 5,
    }))
    const gaps = async (jobs: readonly KeyedJob[]): Promise<readonly number[]> => {
      const { runs } = await harness.run('strict', { jobs, concurrency: CONCURRENCY })
      return judge(runs.filter((run) => run.key === key)).gapsMs
    }
    const idle: (readonly number[])[] = []
    const plain: (readonly number[])[] = []
    const busy: (readonly number[])[] = []
    for (let round = 0; round < rounds; round++) {
      idle.push(await gaps(hot))
      plain.push((await harness.run('plain', { jobs: hot, concurrency: 1, processes: 1 })).gapsMs)
      // The jobs of the line come early: only the first of them waits behind the others.
      busy.push(await gaps([...others.slice(0, 20), ...hot, ...others.slice(20)]))
    }
    const p = (all: readonly (readonly number[])[], part: number): number =>
      median(all.map((values) => percentile(values, part)))
    return [
      speed('gap p50, alone', p(idle, 0.5), 'ms', { must: { atMost: 2 } }),
      speed('gap p95, alone', p(idle, 0.95), 'ms', { must: { atMost: 10 } }),
      reference('… plain BullMQ in one slot, p50', p(plain, 0.5), 'ms'),
      // With others waiting a line goes to the back when its burst is spent: p95 has these turns.
      reference('gap p50, before 5,000 others', p(busy, 0.5), 'ms'),
      reference('gap p95, before 5,000 others', p(busy, 0.95), 'ms'),
    ]
  },
}
