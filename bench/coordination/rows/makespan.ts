/** Jobs that compete for a few lines: how close the whole load comes to plain BullMQ. */
import type { Contender } from '../job.ts'
import { inTurns } from '../harness.ts'
import { reference, speed, type Row } from '../row.ts'
import {
  clientUs,
  CONCURRENCY,
  noInversions,
  noOverlaps,
  rounds,
  throughputOfPlain,
} from './rounds.ts'

export function makespan(
  name: string,
  lines: number,
  each: number,
  workMs: number,
  most: number,
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
      const contenders = ['plain', 'strict', ...others] as const
      const outcomes = await rounds(harness, extent, contenders, (contender) =>
        contender === 'plain' ? alone : { jobs, concurrency: CONCURRENCY },
      )
      const ratio = (contender: Contender): number => 1 / throughputOfPlain(outcomes, contender)
      const limits = { must: { atMost: most } }
      const wasted = outcomes.worst('strict', (outcome) => outcome.wasted)
      const commands = outcomes.median('strict', ({ masterCommands }) => masterCommands)
      return [
        speed('makespan of plain BullMQ', ratio('strict'), 'x', limits),
        ...others.map((contender) => reference(`… ${contender}`, ratio(contender), 'x')),
        noInversions(outcomes),
        noOverlaps(outcomes),
        reference('starts in vain', wasted),
        reference('client commands per job and lock master', commands),
        ...contenders.map((contender) => {
          const cpuUs = outcomes.median(contender, clientUs)
          return reference(`workers' CPU per job, ${contender}`, cpuUs, 'µs')
        }),
      ]
    },
  }
}
