/** Random delays. Pure: the random number comes in. */

/**
 * Somewhere from `minMs` to `minMs` plus an upper bound that doubles with every try ("full
 * jitter"), so that contenders who met once are unlikely to meet again.
 */
export function jitteredMs(tries: number, minMs: number, maxMs: number, random: number): number {
  const spreadMs = Math.min(maxMs, minMs * 2 ** Math.min(tries, 20))
  return Math.min(minMs + random * spreadMs, Math.max(minMs, maxMs))
}
