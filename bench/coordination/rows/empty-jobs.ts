/** What a line and a lease cost where jobs do nothing. */
import type { Contender } from '../job.ts'
import { inTurns, type Outcome } from '../harness.ts'
import { reference, speed, type Figure, type Limit, type Row } from '../row.ts'
import {
  clientUs,
  jobsPerSecond,
  noInversions,
  noOverlaps,
  queueUs,
  rounds,
  throughputOfPlain,
  type Outcomes,
} from './rounds.ts'

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
      const ratio = (contender: Contender): number => throughputOfPlain(outcomes, contender)
      return [
        speed('throughput of plain BullMQ', ratio('strict'), 'x', throughput),
        reference('… LockedWorker on a plain Queue', ratio('gate'), 'x'),
        reference('… one wake alone', ratio('woken'), 'x'),
        ...CONTENDERS.map((contender) =>
          reference(`jobs per second, ${contender}`, outcomes.median(contender, jobsPerSecond)),
        ),
        ...costs(outcomes),
        noInversions(outcomes),
        noOverlaps(outcomes),
      ]
    },
  }
}

function costs(outcomes: Outcomes): readonly Figure[] {
  const beside = (of: (outcome: Outcome) => number): string =>
    `plain BullMQ ${outcomes.median('plain', of).toFixed(2)}, one wake alone ${outcomes.median('woken', of).toFixed(2)}`
  const cost = (
    name: string,
    of: (outcome: Outcome) => number,
    limits: { readonly must: Limit; readonly aim: Limit },
  ): Figure => speed(name, outcomes.median('strict', of), '', { ...limits, note: beside(of) })
  const addedUs = outcomes.compared('strict', 'plain', (ours, plain) => {
    return ((ours.cpuMs - plain.cpuMs) * 1_000) / ours.runs.length
  })
  return [
    cost("scripts at the queue's Redis per job", ({ queue }) => queue.scripts, {
      ...{ must: { atMost: 1.2 }, aim: { atMost: 1.05 } },
    }),
    cost("commands at the queue's Redis per job", ({ queue }) => queue.commands, {
      ...{ must: { atMost: 34 }, aim: { atMost: 31 } },
    }),
    speed('client CPU per job over plain BullMQ', addedUs.median, 'µs', {
      ...{ must: { atMost: 100 }, aim: { atMost: 50 }, note: beside(clientUs) },
    }),
    ...CONTENDERS.map((contender) => {
      const cpuUs = outcomes.median(contender, queueUs)
      return reference(`queue's Redis CPU per job, ${contender}`, cpuUs, 'µs')
    }),
  ]
}
