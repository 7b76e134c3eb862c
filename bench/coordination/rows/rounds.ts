/** Runs of one load by several contenders, and what is made of them. */
import type { Contender } from '../job.ts'
import { median } from '../judge.ts'
import type { Lab, Load, Outcome } from '../lab.ts'

export const CONCURRENCY = 5

/**
 * Contenders take turns within each round, so that a busy moment of the machine hits all of them. One round before these is not
 * counted: a worker that has just been started runs code that nobody has compiled yet.
 */
export async function rounds(
  lab: Lab,
  count: number,
  contenders: readonly Contender[],
  load: Load,
): Promise<ReadonlyMap<Contender, readonly Outcome[]>> {
  const outcomes = new Map<Contender, Outcome[]>(contenders.map((name) => [name, []]))
  for (let round = 0; round <= count; round++) {
    for (const name of contenders) {
      const outcome = await lab.run(name, load)
      if (round > 0) outcomes.get(name)?.push(outcome)
    }
  }
  return outcomes
}

export const of = (
  outcomes: readonly Outcome[] | undefined,
  value: (outcome: Outcome) => number,
): number => median((outcomes ?? []).map(value))
export const worst = (
  outcomes: readonly Outcome[] | undefined,
  value: (outcome: Outcome) => number,
): number => Math.max(...(outcomes ?? []).map(value))
