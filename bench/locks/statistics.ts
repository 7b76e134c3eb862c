/** Numbers about numbers. */

export interface Quantiles {
  readonly mean: number
  readonly p50: number
  readonly p99: number
  readonly max: number
}

export function quantiles(samples: readonly number[]): Quantiles {
  const sorted = Float64Array.from(samples).sort()
  const at = (share: number): number =>
    sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0
  const sum = samples.reduce((total, sample) => total + sample, 0)
  return { mean: sum / Math.max(1, samples.length), p50: at(0.5), p99: at(0.99), max: at(1) }
}

/** Of the rounds of a measurement. */
export interface Spread {
  readonly median: number
  readonly low: number
  readonly high: number
}

export function spread(rounds: readonly number[]): Spread {
  const sorted = [...rounds].sort((a, b) => a - b)
  const middle = (sorted.length - 1) / 2
  const median = ((sorted[Math.floor(middle)] ?? NaN) + (sorted[Math.ceil(middle)] ?? NaN)) / 2
  return { median, low: sorted[0] ?? NaN, high: sorted.at(-1) ?? NaN }
}

/**
 * Round by round, so that a machine that is busy for a while weighs on both sides of each ratio.
 */
export function ratios(rounds: readonly number[], others: readonly number[]): readonly number[] {
  return rounds.map((value, round) => value / (others[round] ?? NaN))
}
