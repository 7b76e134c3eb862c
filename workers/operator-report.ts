/** What an operator's strikes amount to: counted, and how sure the mean cost is. Pure. */
import { seededRandom } from './seeded-random.ts'
import type { Strike } from './strike.ts'

export interface OperatorReport {
  readonly operator: string
  readonly strikes: number
  readonly total: number
  readonly costPerYear: Readonly<Record<string, number>>
  readonly strikesPerPhase: Readonly<Record<string, number>>
  readonly worst: Strike
  readonly meanCost: number
  /** Nine of ten resamplings of the strikes have their mean cost between these two. */
  readonly meanCostInterval: readonly [number, number]
}

const RESAMPLINGS = 20_000

/** Takes a noticeable time on purpose: it is the work that must not be done twice. */
export function operatorReport(operator: string, all: readonly Strike[]): OperatorReport {
  const strikes = all.filter(({ customer }) => customer === operator)
  const [first] = strikes
  if (first === undefined) throw new Error(`The input has no strike of ${operator}`)
  const total = sum(strikes.map(({ amount }) => amount))
  return {
    operator,
    strikes: strikes.length,
    total,
    costPerYear: tally(
      strikes,
      ({ date }) => date.slice(0, 4),
      ({ amount }) => amount,
    ),
    strikesPerPhase: tally(
      strikes,
      ({ phase }) => phase,
      () => 1,
    ),
    worst: strikes.reduce(
      (worst, strike) => (strike.amount > worst.amount ? strike : worst),
      first,
    ),
    meanCost: total / strikes.length,
    meanCostInterval: bootstrap(strikes.map(({ amount }) => amount)),
  }
}

function tally(
  strikes: readonly Strike[],
  key: (strike: Strike) => string,
  value: (strike: Strike) => number,
): Record<string, number> {
  const totals: Record<string, number> = {}
  for (const strike of strikes) totals[key(strike)] = (totals[key(strike)] ?? 0) + value(strike)
  return totals
}

/** Percentile bootstrap of the mean. Seeded, so the same strikes give the same report. */
function bootstrap(amounts: readonly number[]): readonly [number, number] {
  const random = seededRandom(amounts.length)
  const means = Float64Array.from({ length: RESAMPLINGS }, () => {
    let total = 0
    for (let draw = 0; draw < amounts.length; draw += 1) {
      total += amounts[Math.floor(random() * amounts.length)] ?? 0
    }
    return total / amounts.length
  }).sort()
  const at = (share: number): number => means[Math.floor(share * (RESAMPLINGS - 1))] ?? 0
  return [at(0.05), at(0.95)]
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}
