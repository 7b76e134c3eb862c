/** What a line and a lease cost where jobs do nothing. */
import type { Contender } from '../job.ts'
import { inTurns } from '../harness.ts'
import { none, reference, type Figure, type Limit, type Row } from '../row.ts'
import { rounds, type Outcomes } from './rounds.ts'

const LINES = 500
const EACH = 20
const CONCURRENCY = 25
const CONTENDERS = ['plain', 'strict', 'gate', 'woken'] as const

export function emptyJobs(
  name: string,
  processes: number,
  throughput: { readonly must: Limit; readonly aim: Limit },
): Row {
  const workers = `${processes} ${processes === 1 ? 'process' : 'processes'} × ${CONCURRENCY}`
  return {
    name,
    load: `${LINES} lines × ${EACH} jobs that do nothing, ${workers}`,
    async run(harness, extent) {
      const jobs = inTurns(extent.smoke ? 50 : LINES, EACH, 0)
      const load = { jobs, concurrency: CONCURRENCY, processes }
      const outcomes = await rounds(harness, extent, CONTENDERS, load)
      const ratio = (contender: Contender): number =>
        outcomes.compared(contender, 'plain', (one, plain) => plain.makespanMs / one.makespanMs)
      return [
        {
          name: 'throughput of plain BullMQ',
          value: ratio('strict'),
          unit: 'x',
          ...throughput,
          kind: 'speed',
        },
        reference('… LockedWorker on a plain Queue', ratio('gate'), 'x'),
        reference('… one wake alone', ratio('woken'), 'x'),
        ...CONTENDERS.map((contender) =>
          reference(
            `jobs per second, ${contender}`,
            outcomes.median(contender, ({ makespanMs, runs }) => (runs.length / makespanMs) * 1e3),
          ),
        ),
        ...costs(outcomes),
        none(
          'inversions',
          outcomes.worst('strict', ({ inversions }) => inversions),
        ),
        none(
          'two jobs of a line at once',
          outcomes.worst('strict', ({ overlaps }) => overlaps),
        ),
      ]
    },
  }
}

function costs(outcomes: Outcomes): readonly Figure[] {
  const scripts = (contender: Contender): number =>
    outcomes.median(contender, ({ queue }) => queue.scripts)
  const commands = (contender: Contender): number =>
    outcomes.median(contender, ({ queue }) => queue.commands)
  const clientUs = (contender: Contender): number =>
    outcomes.median(contender, ({ cpuMs, runs }) => (cpuMs * 1_000) / runs.length)
  const beside = (of: (contender: Contender) => number): string =>
    `plain BullMQ ${of('plain').toFixed(2)}, one wake alone ${of('woken').toFixed(2)}`
  return [
    {
      name: "scripts at the queue's Redis per job",
      value: scripts('strict'),
      must: { atMost: 1.2 },
      aim: { atMost: 1.05 },
      kind: 'speed',
      note: beside(scripts),
    },
    {
      name: "commands at the queue's Redis per job",
      value: commands('strict'),
      must: { atMost: 34 },
      aim: { atMost: 31 },
      kind: 'speed',
      note: beside(commands),
    },
    {
      name: 'client CPU per job over plain BullMQ',
      value: outcomes.compared(
        'strict',
        'plain',
        (ours, plain) => ((ours.cpuMs - plain.cpuMs) * 1_000) / ours.runs.length,
      ),
      unit: 'µs',
      must: { atMost: 100 },
      aim: { atMost: 50 },
      kind: 'speed',
      note: beside(clientUs),
    },
    ...CONTENDERS.map((contender) =>
      reference(
        `queue's Redis CPU per job, ${contender}`,
        outcomes.median(contender, ({ queue }) => queue.cpuUs),
        'µs',
      ),
    ),
  ]
}
