/** Runs of one load by several contenders, and figures over them. */
import { takeTurns, type Rounds } from '../../rounds.ts'
import type { Harness, Load, Outcome } from '../harness.ts'
import type { Contender } from '../job.ts'
import type { Effort } from '../../effort.ts'
import { none, type Figure } from '../row.ts'

export const CONCURRENCY = 5

export type Outcomes = Rounds<Contender, Outcome>

export function rounds(
  harness: Harness,
  extent: Effort,
  contenders: readonly Contender[],
  load: Load | ((contender: Contender) => Load),
): Promise<Outcomes> {
  return takeTurns(contenders, extent, (name) =>
    harness.run(name, typeof load === 'function' ? load(name) : load),
  )
}

/** How long plain BullMQ takes for the same jobs, as a part of it. */
export function throughputOfPlain(outcomes: Outcomes, contender: Contender): number {
  const compare = (one: Outcome, plain: Outcome): number => plain.makespanMs / one.makespanMs
  return outcomes.compared(contender, 'plain', compare).median
}

export const jobsPerSecond = ({ makespanMs, runs }: Outcome): number =>
  (runs.length / makespanMs) * 1_000
export const clientUs = ({ cpuMs, runs }: Outcome): number => (cpuMs * 1_000) / runs.length
export const queueUs = ({ queue }: Outcome): number => queue.cpuUs

export function noInversions(outcomes: Outcomes, contender: Contender = 'strict'): Figure {
  const inversions = ({ inversions: count }: Outcome): number => count
  return none('inversions', outcomes.worst(contender, inversions))
}

export function noOverlaps(outcomes: Outcomes): Figure {
  const overlaps = ({ overlaps: count }: Outcome): number => count
  return none('two jobs of a line at once', outcomes.worst('strict', overlaps))
}
