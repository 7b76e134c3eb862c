/** Rounds in which contenders take turns, and numbers over the rounds. */
/** How much is measured: everything, or each load once and for a moment, to see that it works. */
export function effortOf(rounds: number, smoke: boolean) {
  return {
    rounds,
    warmUps: smoke ? 0 : 1,
    of: <Size>(whole: Size, small: Size): Size => (smoke ? small : whole),
    /** The variants of a load: all of them, or the first two. */
    some: <Variant>(all: readonly Variant[]) => (smoke ? all.slice(0, 2) : all),
  }
}

export type Effort = ReturnType<typeof effortOf>

/** A number in a result: the name of its field, or how it is made of several. */
export type Value<Result> =
  | ((result: Result) => number)
  | { [Name in keyof Result]: Result[Name] extends number ? Name : never }[keyof Result]

/** @param all The results of each contender, in the order of the rounds. */
function roundsOf<Contender, Result>(all: ReadonlyMap<Contender, readonly Result[]>) {
  const values = (contender: Contender, value: Value<Result>): readonly number[] => {
    const results = all.get(contender) ?? []
    return results.map((one) => (typeof value === 'function' ? value(one) : Number(one[value])))
  }
  const median = (contender: Contender, value: Value<Result>): number =>
    spread(values(contender, value)).median
  return {
    contenders: [...all.keys()] as readonly Contender[],
    ...{ values, median },
    spread: (contender: Contender, value: Value<Result>) => spread(values(contender, value)),
    sum: (contender: Contender, value: Value<Result>) => sum(values(contender, value)),
    worst: (contender: Contender, value: Value<Result>) => Math.max(...values(contender, value)),
    /** A value of one beside that of another in the same round: a busy machine weighs on both. */
    ratio(ours: Contender, theirs: Contender, value: Value<Result>): Spread {
      const others = values(theirs, value)
      return spread(values(ours, value).map((own, round) => own / (others[round] ?? NaN)))
    },
    /** The one that does best. */
    best(among: readonly Contender[], value: Value<Result>, better: 'more' | 'less'): Contender {
      const sign = better === 'more' ? -1 : 1
      const rank = (contender: Contender): number => {
        const middle = median(contender, value)
        return Number.isFinite(middle) ? sign * middle : Infinity
      }
      const [first] = among.toSorted((a, b) => rank(a) - rank(b))
      if (first === undefined) throw new Error('A contender was expected')
      return first
    },
  }
}

export type Rounds<Contender, Result> = ReturnType<typeof roundsOf<Contender, Result>>

/**
 * Each round begins with another contender. Warm-ups are rounds before the first one, with negative
 * numbers, and are not counted: they run code that is not compiled yet.
 */
export async function takeTurns<Contender, Result>(
  contenders: readonly Contender[],
  { rounds, warmUps = 0 }: Partial<Pick<Effort, 'warmUps'>> & Pick<Effort, 'rounds'>,
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
  return roundsOf(results)
}

export function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}

export function mean(values: readonly number[]): number {
  return sum(values) / values.length
}

export function median(values: readonly number[]): number {
  return spread(values).median
}

/** The nearest rank; NaN when there are no values. */
export function percentile(values: readonly number[], part: number): number {
  return values.toSorted((a, b) => a - b)[Math.max(0, Math.ceil(part * values.length) - 1)] ?? NaN
}

/** Of the rounds of a measurement. */
export interface Spread {
  readonly median: number
  readonly low: number
  readonly high: number
}

export function spread(rounds: readonly number[]): Spread {
  const values = rounds.toSorted((a, b) => a - b)
  const middle = (values.length - 1) / 2
  const median = mean([values[Math.floor(middle)] ?? NaN, values[Math.ceil(middle)] ?? NaN])
  return { median, low: values[0] ?? NaN, high: values.at(-1) ?? NaN }
}

/** What a server has used since it started, by its `INFO`. */
export function cpuMs(info: string): number {
  const used = [...info.matchAll(/used_cpu_(?:user|sys):([\d.]+)/g)]
  return sum(used.map((one) => Number(one[1]))) * 1_000
}
