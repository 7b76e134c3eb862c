/** Jobs that compete for a few keys. */
import type { Contender } from '../job.ts'
import { inTurns } from '../lab.ts'
import type { Figure, Row } from '../row.ts'
import { CONCURRENCY, of, rounds, worst } from './rounds.ts'

export function contended(
  name: string,
  keys: number,
  each: number,
  workMs: number,
  contenders: readonly Contender[],
  limits: { readonly makespan: number; readonly masterCommands?: number },
): Row {
  return {
    name,
    load: `${keys} ${keys === 1 ? 'key' : 'keys'} × ${each} jobs × ${workMs} ms, 4 processes × ${CONCURRENCY}`,
    async run(lab, count) {
      const idealMs = each * workMs
      const load = { jobs: inTurns(keys, each, workMs), concurrency: CONCURRENCY }
      const outcomes = await rounds(lab, count, contenders, load)
      const ours = outcomes.get('strict')
      // The jobs of one key by the only slot there is: in order without any lock.
      const alone = { jobs: inTurns(1, each, workMs), concurrency: 1, processes: 1 }
      const one = (await rounds(lab, count, ['plain'], alone)).get('plain')
      const others = contenders.filter((contender) => contender !== 'strict')
      return [
        {
          name: 'makespan / ideal',
          value: of(ours, ({ makespanMs }) => makespanMs / idealMs),
          unit: 'x',
          atMost: limits.makespan,
          kind: 'speed',
        },
        {
          name: '… plain BullMQ, one key in one slot',
          value: of(one, ({ makespanMs }) => makespanMs / idealMs),
          unit: 'x',
          kind: 'reference',
        },
        ...others.map((contender): Figure => {
          const value = of(outcomes.get(contender), ({ makespanMs }) => makespanMs / idealMs)
          return { name: `… ${contender}`, value, unit: 'x', kind: 'reference' }
        }),
        {
          name: 'wasted activations per job',
          value: worst(ours, ({ wasted, runs }) => wasted / runs.length),
          atMost: 0,
          kind: 'correctness',
        },
        {
          name: 'inversions',
          value: worst(ours, ({ inversions }) => inversions),
          atMost: 0,
          kind: 'correctness',
        },
        {
          name: 'two jobs of a key at once',
          value: worst(ours, ({ overlaps }) => overlaps),
          atMost: 0,
          kind: 'correctness',
        },
        {
          name: 'client commands per job and lock master',
          value: of(ours, ({ masterCommands }) => masterCommands),
          atMost: limits.masterCommands ?? 2.2,
          kind: 'speed',
        },
        ...contenders.map((contender): Figure => ({
          name: `workers' CPU per job, ${contender}`,
          value: of(outcomes.get(contender), ({ cpuMs, runs }) => cpuMs / runs.length),
          unit: 'ms',
          kind: 'reference',
        })),
        ...contenders.map((contender): Figure => ({
          name: `commands in the queue's Redis per job, ${contender}`,
          value: of(outcomes.get(contender), ({ queueCommands }) => queueCommands),
          kind: 'reference',
        })),
      ]
    },
  }
}
