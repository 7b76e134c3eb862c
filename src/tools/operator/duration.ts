/** Milliseconds as people read them: what rounds to 60 min is an hour. */
export function duration(ms: number): string {
  if (ms < 10) return `${ms.toFixed(1)} ms`
  if (ms < 1_000) return `${Math.round(ms)} ms`
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`
  if (ms < 3_570_000) return `${Math.round(ms / 60_000)} min`
  return ms < 172_800_000 ? `${Math.round(ms / 3_600_000)} h` : `${Math.round(ms / 86_400_000)} d`
}

/** A key without a time to live never goes away. */
export function timeLeft(ms: number): string {
  return ms < 0 ? 'no expiry' : duration(ms)
}
