/** When a lease that is kept alive is renewed. Pure. */

/** A lease is renewed when a third of it is gone, which leaves time for failed tries. */
export function renewAfterMs(leaseMs: number): number {
  return leaseMs / 3
}

/**
 * When a lease with `leftMs` of it left is renewed first: as above, but one that was passed on old
 * not at once, since the work may be over in a moment and the next one older still.
 */
export function firstRenewalMs(leaseMs: number, leftMs: number): number {
  return Math.max(leaseMs / 10, leftMs - leaseMs + renewAfterMs(leaseMs))
}

/**
 * Whether work may begin under a lease with `leftMs` of it left, which is kept alive: there is time
 * for some failed tries.
 */
export function canBeRenewed(leaseMs: number, leftMs: number): boolean {
  return leftMs >= leaseMs / 2
}

/** After a failed renewal: soon, sooner as the trust runs out, but not in a tight loop. */
export function retryAfterMs(leaseMs: number, leftMs: number): number {
  return Math.max(10, Math.min(leaseMs / 10, leftMs / 4))
}
