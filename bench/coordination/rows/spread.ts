/** Whether a few lines are worked by all processes, or by the one that began. */
import { inTurns, type Outcome } from '../harness.ts'
import { reference, speed, type Row } from '../row.ts'
import { noInversions, rounds, throughputOfPlain } from './rounds.ts'

export const spread: Row = {
  name: 'spread',
  load: '20 lines × 500 jobs that do nothing, 4 processes × 25',
  async run(harness, extent) {
    const jobs = inTurns(20, extent.smoke ? 30 : 500, 0)
    const contenders = ['plain', 'strict'] as const
    const outcomes = await rounds(harness, extent, contenders, {
      ...{ jobs, concurrency: 25, kept: false },
    })
    const share = ({ runs, runsByProcess }: Outcome): number =>
      (Math.max(...runsByProcess) / runs.length) * 100
    const ours = outcomes.median('strict', share)
    return [
      speed('share of the busiest process', ours, '%', { must: { atMost: 40 } }),
      reference('… plain BullMQ', outcomes.median('plain', share), '%'),
      speed('throughput of plain BullMQ', throughputOfPlain(outcomes, 'strict'), 'x', {
        ...{ must: { atLeast: 0.55 }, aim: { atLeast: 0.7 } },
      }),
      noInversions(outcomes),
    ]
  },
}
