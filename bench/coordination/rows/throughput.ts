/** What a line and a lease cost, beside plain BullMQ that keeps no order, and beside groupmq. */
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

/** What must hold, and what is aimed at. */
type Limits = readonly [must: number, aim?: number]

interface Shape {
  readonly lines: number
  readonly each: number
  readonly processes: number
  readonly concurrency: number
  /** @defaultValue 0 */
  readonly workMs?: number
  /** So much more or less, so that no two end together. @defaultValue 0 */
  readonly spreadMs?: number
  /** Jobs that are done are kept, as BullMQ does by default. */
  readonly kept?: true
  /** Of plain BullMQ's. */
  readonly throughput: Limits
  /** Of groupmq's. */
  readonly groupmq?: Limits
  readonly clientCpu?: Limits
  readonly queueCpu?: Limits
}

export function throughput(name: string, shape: Shape): Row {
  const { lines, each, processes, concurrency, workMs = 0, spreadMs = 0, kept = false } = shape
  const work =
    workMs === 0 ? 'that do nothing' : `of ${workMs - spreadMs} to ${workMs + spreadMs} ms`
  const where = processes === 1 ? '1 process' : `${processes} processes`
  const end = kept ? 'kept' : 'removed'
  return {
    name,
    load: `${lines} lines × ${each} jobs ${work}, ${end} when done, ${where} × ${concurrency}`,
    async run(harness, extent) {
      const jobs = inTurns(lines, extent.smoke ? Math.ceil(each / 10) : each, workMs, spreadMs)
      const load = { jobs, concurrency, processes, kept }
      const contenders = [
        ...(['plain', 'strict'] as const),
        ...(shape.groupmq ? (['groupmq'] as const) : []),
      ]
      const outcomes = await rounds(harness, extent, contenders, load)
      const ratio = throughputOfPlain(outcomes, 'strict')
      return [
        speed('throughput of plain BullMQ', ratio, 'x', atLeast(shape.throughput)),
        ...(shape.groupmq ? [besideGroupmq(outcomes, shape.groupmq)] : []),
        ...contenders.map((contender) =>
          reference(`jobs per second, ${contender}`, outcomes.median(contender, jobsPerSecond)),
        ),
        cost(outcomes, 'client CPU per job', clientUs, shape.clientCpu),
        cost(outcomes, "queue's Redis CPU per job", queueUs, shape.queueCpu),
        cost(outcomes, "scripts at the queue's Redis per job", ({ queue }) => queue.scripts),
        cost(outcomes, "commands at the queue's Redis per job", ({ queue }) => queue.commands),
        noInversions(outcomes),
        noOverlaps(outcomes),
      ]
    },
  }
}

function besideGroupmq(outcomes: Outcomes, limits: Limits): Figure {
  const compared = outcomes.compared('strict', 'groupmq', (ours, theirs) => {
    return theirs.makespanMs / ours.makespanMs
  })
  return speed('throughput of groupmq', compared.median, 'x', atLeast(limits))
}

/** Beside that of plain BullMQ in the same round. */
function cost(
  outcomes: Outcomes,
  name: string,
  of: (outcome: Outcome) => number,
  limits?: Limits,
): Figure {
  const ratio = outcomes.compared('strict', 'plain', (ours, plain) => of(ours) / of(plain)).median
  const own = outcomes.median('strict', of).toFixed(1)
  const note = `${own}, plain BullMQ ${outcomes.median('plain', of).toFixed(1)}`
  if (limits === undefined) return { ...reference(`${name}, of plain BullMQ`, ratio, 'x'), note }
  return speed(`${name}, of plain BullMQ`, ratio, 'x', { ...atMost(limits), note })
}

function atLeast([must, aim]: Limits): { readonly must: Limit; readonly aim?: Limit } {
  return { must: { atLeast: must }, ...(aim !== undefined && { aim: { atLeast: aim } }) }
}

function atMost([must, aim]: Limits): { readonly must: Limit; readonly aim?: Limit } {
  return { must: { atMost: must }, ...(aim !== undefined && { aim: { atMost: aim } }) }
}
