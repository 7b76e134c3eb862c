/**
 * How a job comes by its lease before it may run. The place where a line of waiting jobs per resource will decide
 * whose turn it is; today every job asks the masters when it is started.
 */
import { jitteredMs } from '../backoff.ts'
import { sleep, type Clock } from '../clock.ts'
import type { LeaseOptions, LockService } from '../lock/lock-service.ts'
import type { AcquireOutcome } from '../lock/outcome.ts'

/** After a split vote the resource is often free a moment later; a requeue would cost more than a short wait. */
const SPLIT_TRIES = 3
const SPLIT_RETRY_MS = { min: 3, max: 40 }

export async function admit(
  locks: LockService,
  resource: string,
  options: LeaseOptions,
  clock: Clock,
): Promise<AcquireOutcome> {
  let outcome = await locks.tryAcquire(resource, options)
  for (let tries = 0; outcome.status === 'split' && tries < SPLIT_TRIES; tries++) {
    const { min, max } = SPLIT_RETRY_MS
    await sleep(clock, jitteredMs(tries, min, max, clock.random()))
    outcome = await locks.tryAcquire(resource, options)
  }
  return outcome
}
