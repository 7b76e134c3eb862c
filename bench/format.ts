/** How numbers are shown: the median, and between brackets the lowest and the highest round. */
import type { Spread } from './statistics.ts'

const MISSING = '–'

/** Three digits that count. */
export function number(value: number): string {
  if (value === Infinity) return 'never'
  if (!Number.isFinite(value)) return MISSING
  const magnitude = Math.abs(value)
  if (magnitude >= 1_000) return Math.round(value).toLocaleString('en')
  if (magnitude === 0 || Number.isInteger(value)) return String(value)
  return value.toFixed(magnitude >= 100 ? 0 : magnitude >= 10 ? 1 : magnitude >= 0.1 ? 2 : 3)
}

export function shown({ median, low, high }: Spread): string {
  if (low === high) return number(median)
  return `${number(median)} (${number(low)}–${number(high)})`
}
