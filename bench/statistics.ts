/** Numbers about numbers. */

export function sorted(values: readonly number[]): readonly number[] {
  return [...values].sort((a, b) => a - b)
}

/** The nearest rank of sorted values; NaN when there are none. */
export function percentile(values: readonly number[], part: number): number {
  return values[Math.max(0, Math.ceil(part * values.length) - 1)] ?? NaN
}

export function median(values: readonly number[]): number {
  return spread(values).median
}

export function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}

export function mean(values: readonly number[]): number {
  return sum(values) / values.length
}

export interface Quantiles {
  readonly mean: number
  readonly p50: number
  readonly p95: number
  readonly p99: number
  readonly max: number
}

/** All 0 without a sample. */
export function quantiles(samples: readonly number[]): Quantiles {
  const values = sorted(samples.length > 0 ? samples : [0])
  const at = (part: number): number => percentile(values, part)
  return { mean: mean(values), p50: at(0.5), p95: at(0.95), p99: at(0.99), max: at(1) }
}

/** Of the rounds of a measurement. */
export interface Spread {
  readonly median: number
  readonly low: number
  readonly high: number
}

export function spread(rounds: readonly number[]): Spread {
  const values = sorted(rounds)
  const middle = (values.length - 1) / 2
  const median = mean([values[Math.floor(middle)] ?? NaN, values[Math.ceil(middle)] ?? NaN])
  return { median, low: values[0] ?? NaN, high: values.at(-1) ?? NaN }
}
