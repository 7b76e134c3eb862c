/** What coordination costs where nobody waits for long. */
import type { Contender } from '../job.ts'
import { inTurns } from '../lab.ts'
import type { Figure, Row } from '../row.ts'
import { CONCURRENCY, of, rounds, worst } from './rounds.ts'

export const throughput: Row = {
  name: 'throughput',
  load: '1,000 keys × 20 jobs that do nothing, 4 processes × 25',
  async run(lab, count) {
    const load = { jobs: inTurns(1_000, 20, 0), concurrency: 25 }
    const outcomes = await rounds(lab, count, ['plain', 'strict', 'gate', 'woken'], load)
    const plain = of(outcomes.get('plain'), ({ tookMs }) => tookMs)
    const strict = of(outcomes.get('strict'), ({ tookMs }) => tookMs)
    const gate = of(outcomes.get('gate'), ({ tookMs }) => tookMs)
    const woken = of(outcomes.get('woken'), ({ tookMs }) => tookMs)
    const { length } = load.jobs
    return [
      {
        name: 'jobs per s / plain BullMQ',
        value: plain / strict,
        atLeast: 0.6,
        unit: 'x',
        kind: 'speed',
      },
      { name: '… on a plain Queue', value: plain / gate, unit: 'x', kind: 'reference' },
      { name: '… woken and nothing else', value: plain / woken, unit: 'x', kind: 'reference' },
      { name: 'jobs per s', value: (length / strict) * 1_000, kind: 'reference' },
      { name: 'jobs per s, plain BullMQ', value: (length / plain) * 1_000, kind: 'reference' },
      ...(['plain', 'strict', 'gate', 'woken'] as const).map((contender): Figure => ({
        name: `workers' CPU per job, ${contender}`,
        value: of(outcomes.get(contender), ({ cpuMs, runs }) => cpuMs / runs.length),
        unit: 'ms',
        kind: 'reference',
      })),
      {
        name: 'two jobs of a key at once',
        value: worst(outcomes.get('strict'), ({ overlaps }) => overlaps),
        atMost: 0,
        kind: 'correctness',
      },
      {
        name: 'inversions',
        value: worst(outcomes.get('strict'), ({ inversions }) => inversions),
        atMost: 0,
        kind: 'correctness',
      },
    ]
  },
}

export const uncontended: Row = {
  name: 'uncontended',
  load: '5,000 keys × 1 job that does nothing, 4 processes × 5',
  async run(lab, count) {
    const load = { jobs: inTurns(5_000, 1, 0), concurrency: CONCURRENCY }
    const contenders = ['plain', 'strict', 'gate', 'groupmq'] as const
    const outcomes = await rounds(lab, count, contenders, load)
    const commands = (contender: Contender): number =>
      of(outcomes.get(contender), ({ queueCommands }) => queueCommands)
    return [
      ...contenders.map((contender): Figure => ({
        name: `commands in the queue's Redis per job, ${contender}`,
        value: commands(contender),
        kind: 'reference',
      })),
      {
        name: '… strict / plain',
        value: commands('strict') / commands('plain'),
        atMost: 1.28,
        unit: 'x',
        kind: 'speed',
      },
      {
        name: '… strict less plain',
        value: commands('strict') - commands('plain'),
        atMost: 7,
        kind: 'speed',
      },
    ]
  },
}
