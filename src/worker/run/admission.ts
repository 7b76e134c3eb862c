/** How a job that may run comes by its lease: from the job before it, or by the masters' vote. */
import { jitteredMs } from '../../backoff.ts'
import { sleep, type Clock } from '../../clock.ts'
import type { LeaseOptions, LockService } from '../../lock/lock-service.ts'
import type { AcquireOutcome } from '../../lock/outcome.ts'
import type { Kept } from './chain.ts'

/** After a split vote the resource is often free a moment later; a requeue would cost more. */
const SPLIT_TRIES = 3
const SPLIT_RETRY_MS = { min: 3, max: 40 }
/** The lease of the job before it may be on its way out. */
const TAKEN_RETRIES_MS = [2, 2, 4, 8, 16]

export async function leaseFor(
  resources: readonly string[],
  kept: Kept | undefined,
  options: {
    readonly locks: LockService
    readonly leaseOptions: LeaseOptions
    readonly clock: Clock
    /** Nothing of its line stands before it, so a holder is about to end. */
    readonly isTurn: boolean
  },
): Promise<AcquireOutcome> {
  const { locks, leaseOptions, clock, isTurn } = options
  const handed = await kept?.outcome
  if (handed?.status === 'granted') return handed
  let outcome = await locks.tryAcquire(resources, leaseOptions)
  let splits = 0
  for (const waitMs of TAKEN_RETRIES_MS) {
    if (outcome.status === 'taken' && isTurn) {
      await sleep(clock, waitMs)
    } else if (outcome.status === 'split' && splits < SPLIT_TRIES) {
      const { min, max } = SPLIT_RETRY_MS
      await sleep(clock, jitteredMs(splits, min, max, clock.random()))
      splits++
    } else {
      return outcome
    }
    outcome = await locks.tryAcquire(resources, leaseOptions)
  }
  return outcome
}
