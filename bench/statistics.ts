/** Numbers about numbers. */

export function sorted(values: readonly number[]): readonly number[] {
  return [...values].sort((a, b) => a - b)
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
  return sorted(values)[Math.max(0, Math.ceil(part * values.length) - 1)] ?? NaN
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

/** What a server has used since it started, by its `INFO`. */
export function cpuMs(info: string): number {
  const used = [...info.matchAll(/used_cpu_(?:user|sys):([\d.]+)/g)]
  return sum(used.map((one) => Number(one[1]))) * 1_000
}
