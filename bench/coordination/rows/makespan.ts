/** Jobs that compete for a few lines: how close the whole load comes to plain BullMQ. */
import type { Contender } from '../job.ts'
import { inTurns } from '../harness.ts'
import { none, reference, type Row } from '../row.ts'
import { CONCURRENCY, rounds } from './rounds.ts'

export function makespan(
  name: string,
  lines: number,
  each: number,
  workMs: number,
  others: readonly Contender[],
): Row {
  const size = `${lines} ${lines === 1 ? 'line' : 'lines'} × ${each} jobs × ${workMs} ms`
  return {
    name,
    load: `${size}, 4 processes × ${CONCURRENCY}; plain BullMQ with as many slots as lines`,
    async run(harness, extent) {
      const jobs = inTurns(lines, extent.smoke ? Math.ceil(each / 10) : each, workMs)
      // The jobs of a line can only run one after the other: more slots would not be comparable.
      const alone =
        lines % 4 === 0
          ? { jobs, concurrency: lines / 4 }
          : { jobs, concurrency: lines, processes: 1 }
      const outcomes = await rounds(harness, extent, ['plain', 'strict', ...others], (contender) =>
        contender === 'plain' ? alone : { jobs, concurrency: CONCURRENCY },
      )
      const ratio = (contender: Contender): number =>
        outcomes.compared(contender, 'plain', (one, plain) => one.makespanMs / plain.makespanMs)
      return [
        {
          name: 'makespan of plain BullMQ',
          value: ratio('strict'),
          unit: 'x',
          must: { atMost: 1.05 },
          aim: { atMost: 1.02 },
          kind: 'speed',
        },
        ...others.map((contender) => reference(`… ${contender}`, ratio(contender), 'x')),
        none(
          'inversions',
          outcomes.worst('strict', ({ inversions }) => inversions),
        ),
        none(
          'two jobs of a line at once',
          outcomes.worst('strict', ({ overlaps }) => overlaps),
        ),
        reference(
          'starts in vain',
          outcomes.worst('strict', ({ wasted }) => wasted),
        ),
        reference(
          'client commands per job and lock master',
          outcomes.median('strict', ({ masterCommands }) => masterCommands),
        ),
        ...(['plain', 'strict', ...others] as const).map((contender) =>
          reference(
            `workers' CPU per job, ${contender}`,
            outcomes.median(contender, ({ cpuMs, runs }) => (cpuMs * 1_000) / runs.length),
            'µs',
          ),
        ),
      ]
    },
  }
}
