/**
 * Renews a lease for as long as its work runs: a loop that schedules itself, so that two renewals
 * never overlap and a slow one is never answered by a faster one. It stops by itself when the lease
 * is over or may not be extended any more; the lease's own timer ends the trust, not the keeper.
 */
import type { Clock, Timer } from '../clock.ts'
import type { Lease } from './lease.ts'

export interface Keeper {
  stop(): void
}

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

export function keep(
  lease: Pick<Lease, 'leaseMs' | 'remainingMs' | 'extend'>,
  clock: Clock,
): Keeper {
  let timer: Timer | undefined
  let stopped = false
  const schedule = (delayMs: number): void => {
    if (stopped) return
    timer = clock.after(delayMs, () => {
      void renew()
    })
  }
  const renew = async (): Promise<void> => {
    try {
      const outcome = await lease.extend()
      if (outcome.status === 'limit') return
      schedule(
        outcome.status === 'extended'
          ? renewAfterMs(lease.leaseMs)
          : retryAfterMs(lease.leaseMs, outcome.remainingMs),
      )
    } catch {
      // The lease is lost or released: its signal and `assertHeld` say so to those who work under
      // it.
    }
  }
  schedule(firstRenewalMs(lease.leaseMs, lease.remainingMs()))
  return {
    stop() {
      stopped = true
      timer?.cancel()
    },
  }
}
