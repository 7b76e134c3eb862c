/** How a job that may run comes by its lease, unless the job before it has left it one. */
import { jitteredMs } from '../../backoff.ts'
import { sleep, systemClock } from '../../clock.ts'
import type { LeaseOptions } from '../../lock/acquire-options.ts'
import type { LockService } from '../../lock/lock-service.ts'
import type { AcquireOutcome } from '../../lock/outcome.ts'
import { claimsFor, tryEach } from '../../lock/slots.ts'

/** After a split vote the resource is often free a moment later; a requeue would cost more. */
const SPLIT_TRIES = 3
const SPLIT_RETRY_MS = { min: 3, max: 40 }
/** The lease of the job before it may be on its way out. */
const TAKEN_RETRIES_MS = [2, 2, 4, 8, 16]

export interface AdmissionOptions {
  readonly locks: LockService
  readonly leaseOptions: LeaseOptions
  /** No job of its line is ahead of it, so a holder is about to end. */
  readonly isTurn: boolean
  /** Those that are set for its resource, in place of those of the worker. */
  readonly slots: number | undefined
}

export async function leaseFor(
  resources: readonly string[],
  options: AdmissionOptions,
): Promise<AcquireOutcome> {
  const { locks, leaseOptions, isTurn, slots } = options
  const hasOwnSlots = slots !== undefined && resources.length === 1
  let splits = 0
  for (let tries = 0; ; tries++) {
    const outcome = hasOwnSlots
      ? await acquireSlot(resources, slots, options)
      : await locks.tryAcquire(resources, leaseOptions)
    const takenMs = TAKEN_RETRIES_MS[tries]
    if (takenMs === undefined) return outcome
    if (outcome.status === 'taken' && isTurn) {
      await sleep(systemClock, takenMs)
    } else if (outcome.status === 'split' && splits < SPLIT_TRIES) {
      const { min, max } = SPLIT_RETRY_MS
      await sleep(systemClock, jitteredMs(splits, min, max, systemClock.random()))
      splits++
    } else {
      return outcome
    }
  }
}

/**
 * Where slots are set for a resource, the worker tries their names itself. The first is the name
 * that a worker without them would take, so workers exclude each other while slots are set and
 * ended.
 */
async function acquireSlot(
  resources: readonly string[],
  slots: number,
  { locks, leaseOptions }: AdmissionOptions,
): Promise<AcquireOutcome> {
  const { slots: own = 1, ...rest } = leaseOptions
  const names = claimsFor(resources, Math.max(2, slots), 0).slice(0, slots)
  const claims = own === 1 ? [resources, ...names.slice(1)] : names
  const first = Math.floor(systemClock.random() * claims.length)
  return tryEach([...claims.slice(first), ...claims.slice(0, first)], (claim) =>
    locks.tryAcquire(claim, rest),
  )
}

/** Whether a lease of a resource with slots is one of its first `slots`. */
export function isWithin(lease: string, resource: string, slots: number): boolean {
  if (!lease.startsWith(`${resource}#`)) return true
  return !(Number(lease.slice(resource.length + 1)) > slots)
}
