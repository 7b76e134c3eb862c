/** Rounds in which contenders take turns, and figures over the rounds. */
import { spread, type Spread } from './statistics.ts'

/** The results of each contender, in the order of the rounds. */
export class Rounds<Contender, Result> {
  readonly #results: ReadonlyMap<Contender, readonly Result[]>

  constructor(results: ReadonlyMap<Contender, readonly Result[]>) {
    this.#results = results
  }

  get contenders(): readonly Contender[] {
    return [...this.#results.keys()]
  }

  of(contender: Contender): readonly Result[] {
    return this.#results.get(contender) ?? []
  }

  values(contender: Contender, value: (result: Result) => number): readonly number[] {
    return this.of(contender).map(value)
  }

  median(contender: Contender, value: (result: Result) => number): number {
    return spread(this.values(contender, value)).median
  }

  worst(contender: Contender, value: (result: Result) => number): number {
    return Math.max(...this.values(contender, value))
  }

  /** What two contenders had in the same round: a busy machine weighs on both. */
  compared(
    ours: Contender,
    theirs: Contender,
    compare: (ours: Result, theirs: Result) => number,
  ): Spread {
    const others = this.of(theirs)
    const values = this.of(ours).flatMap((result, round) => {
      const other = others[round]
      return other === undefined ? [] : [compare(result, other)]
    })
    return spread(values)
  }
}

/**
 * Each round begins with another contender. `warmUps` rounds before the first one, with negative
 * numbers, are not counted: they run code that is not compiled yet.
 */
export async function takeTurns<Contender, Result>(
  contenders: readonly Contender[],
  { rounds, warmUps }: { readonly rounds: number; readonly warmUps: number },
  measure: (contender: Contender, round: number) => Promise<Result>,
): Promise<Rounds<Contender, Result>> {
  const results = new Map<Contender, Result[]>(contenders.map((contender) => [contender, []]))
  for (let round = -warmUps; round < rounds; round++) {
    const first = (round + warmUps) % contenders.length
    for (const contender of [...contenders.slice(first), ...contenders.slice(0, first)]) {
      const result = await measure(contender, round)
      if (round >= 0) results.get(contender)?.push(result)
    }
  }
  return new Rounds(results)
}
