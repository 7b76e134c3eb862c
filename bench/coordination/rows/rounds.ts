/** Runs of one load by several contenders, and figures over them. */
import type { Contender } from '../job.ts'
import { median } from '../judge.ts'
import type { Harness, Load, Outcome } from '../harness.ts'
import type { Extent } from '../row.ts'

export const CONCURRENCY = 5

/**
 * Contenders take turns within each round, so that a busy moment of the machine hits all of them.
 * Every other round has them in the opposite order. One round before these is not counted: a worker
 * that has just been started runs code that is not compiled yet.
 */
export async function rounds(
  harness: Harness,
  { rounds: count, smoke }: Extent,
  contenders: readonly Contender[],
  load: Load | ((contender: Contender) => Load),
): Promise<Outcomes> {
  const outcomes = new Map<Contender, Outcome[]>(contenders.map((name) => [name, []]))
  const warmUps = smoke ? 0 : 1
  for (let round = -warmUps; round < count; round++) {
    for (const name of round % 2 === 0 ? contenders : contenders.toReversed()) {
      const outcome = await harness.run(name, typeof load === 'function' ? load(name) : load)
      if (round >= 0) outcomes.get(name)?.push(outcome)
    }
  }
  return new Outcomes(outcomes)
}

type ValueOf = (outcome: Outcome) => number

export class Outcomes {
  readonly #outcomes: ReadonlyMap<Contender, readonly Outcome[]>

  constructor(outcomes: ReadonlyMap<Contender, readonly Outcome[]>) {
    this.#outcomes = outcomes
  }

  of(contender: Contender): readonly Outcome[] {
    return this.#outcomes.get(contender) ?? []
  }

  median(contender: Contender, value: ValueOf): number {
    return median(this.of(contender).map(value))
  }

  worst(contender: Contender, value: ValueOf): number {
    return Math.max(...this.of(contender).map(value))
  }

  /** The median over the rounds of what two contenders had in the same round. */
  compared(
    ours: Contender,
    theirs: Contender,
    compare: (ours: Outcome, theirs: Outcome) => number,
  ): number {
    const others = this.of(theirs)
    const values = this.of(ours).flatMap((outcome, round) => {
      const other = others[round]
      return other === undefined ? [] : [compare(outcome, other)]
    })
    return median(values)
  }
}
