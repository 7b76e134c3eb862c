/** Whether a few lines are worked by all processes, or by the one that began. */
import type { Contender } from '../job.ts'
import { inTurns, type Outcome } from '../harness.ts'
import { none, reference, type Row } from '../row.ts'
import { rounds } from './rounds.ts'

export const spread: Row = {
  name: 'spread',
  load: '20 lines × 500 jobs that do nothing, 4 processes × 25',
  async run(harness, extent) {
    const jobs = inTurns(20, extent.smoke ? 30 : 500, 0)
    const contenders = ['plain', 'strict'] as const
    const outcomes = await rounds(harness, extent, contenders, { jobs, concurrency: 25 })
    const share = ({ runs, runsByProcess }: Outcome): number =>
      (Math.max(...runsByProcess) / runs.length) * 100
    const ofPlain = (contender: Contender): number =>
      outcomes.compared(contender, 'plain', (one, plain) => plain.makespanMs / one.makespanMs)
    return [
      {
        name: 'share of the busiest process',
        value: outcomes.median('strict', share),
        unit: '%',
        must: { atMost: 40 },
        kind: 'speed',
      },
      reference('… plain BullMQ', outcomes.median('plain', share), '%'),
      reference('throughput of plain BullMQ', ofPlain('strict'), 'x'),
      none(
        'inversions',
        outcomes.worst('strict', ({ inversions }) => inversions),
      ),
    ]
  },
}
