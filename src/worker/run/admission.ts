/** How a job that may run comes by its lease: from the job before it, or by the masters' vote. */
import { jitteredMs } from '../../backoff.ts'
import { sleep, type Clock } from '../../clock.ts'
import type { LeaseOptions, LockService } from '../../lock/lock-service.ts'
import type { AcquireOutcome } from '../../lock/outcome.ts'
import { claimsFor, tryEach } from '../../lock/slots.ts'
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
    /** The slots that are set for its resource in place of those of the worker. */
    readonly slots: number | undefined
  },
): Promise<AcquireOutcome> {
  const { clock, isTurn } = options
  const handed = await kept?.outcome
  if (handed?.status === 'granted') return handed
  let outcome = await acquireOnce(resources, options)
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
    outcome = await acquireOnce(resources, options)
  }
  return outcome
}

/**
 * Where slots are set for a resource, the worker tries their names itself. The first is the name
 * that a worker without them would take, so workers exclude each other while slots are set and
 * ended.
 */
async function acquireOnce(
  resources: readonly string[],
  {
    locks,
    leaseOptions,
    clock,
    slots,
  }: {
    readonly locks: LockService
    readonly leaseOptions: LeaseOptions
    readonly clock: Clock
    readonly slots: number | undefined
  },
): Promise<AcquireOutcome> {
  const [resource] = resources
  if (slots === undefined || resource === undefined || resources.length > 1) {
    return locks.tryAcquire(resources, leaseOptions)
  }
  const { slots: own = 1, ...rest } = leaseOptions
  const names = claimsFor([resource], Math.max(2, slots), 0).slice(0, slots)
  const claims = own === 1 ? [[resource], ...names.slice(1)] : names
  const first = Math.floor(clock.random() * claims.length)
  return tryEach([...claims.slice(first), ...claims.slice(0, first)], (claim) =>
    locks.tryAcquire(claim, rest),
  )
}

/** Whether a lease of a resource with slots is one of its first `slots`. */
export function isWithin(lease: string, resource: string, slots: number): boolean {
  if (!lease.startsWith(`${resource}#`)) return true
  return !(Number(lease.slice(resource.length + 1)) > slots)
}
