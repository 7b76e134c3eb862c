/** How a job that may run comes by its lease, unless the job before it has left it one. */
import { jitteredMs } from '../../backoff.ts'
import { sleep, systemClock } from '../../clock.ts'
import type { LeaseOptions } from '../../lock/lease-options.ts'
import type { LockService } from '../../lock/lock-service.ts'
import type { AcquireOutcome } from '../../lock/outcome.ts'
import { slotNames, trySlots } from '../../lock/slots.ts'
import { slotsOf, slotsSetFor, type Slots } from '../../slots.ts'
import type { Visit } from './visit.ts'

/** After a split vote the resource is often free a moment later; a requeue would cost more. */
const SPLIT_TRIES = 3
const SPLIT_RETRY_MS = { min: 3, max: 40 }
/** Where slots are set, no lock service tells when one is free. */
const SLOT_RETRIES_MS = [2, 2, 4, 8, 16]

/** What a worker asks for a job. */
export interface AdmissionOptions {
  readonly locks: LockService
  /** The lease of each job. */
  readonly leaseOptions: LeaseOptions
  /**
   * No job of its line is ahead of it. The lease may be on its way out, or a job of another queue
   * has it: it is waited for this long, in the order of arrival. 0 for no waiting.
   */
  readonly waitMs: number
}

export async function leaseFor(
  { resources, slots, stop }: Visit,
  admission: AdmissionOptions,
): Promise<AcquireOutcome> {
  const { locks, leaseOptions, waitMs } = admission
  const hasOwnSlots = slots !== undefined
  let [splits, waits] = [0, 0]
  for (;;) {
    const outcome = hasOwnSlots
      ? await acquireSlot(resources, slots, admission)
      : await locks.tryAcquire(resources, leaseOptions)
    const mayWait = outcome.status === 'taken' && waitMs > 0
    const slotMs = SLOT_RETRIES_MS[waits]
    if (mayWait && hasOwnSlots && slotMs !== undefined) {
      await sleep(systemClock, slotMs)
      waits++
    } else if (mayWait && !hasOwnSlots && waits === 0) {
      const { signal } = stop
      const waiting = locks.acquire(resources, { ...leaseOptions, waitMs, signal })
      const lease = await waiting.catch(() => undefined) // The next attempt says why.
      if (lease !== undefined) return { status: 'granted', lease }
      waits++
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
  set: Slots,
  { locks, leaseOptions }: AdmissionOptions,
): Promise<AcquireOutcome> {
  const { slots: usual = 1, ...rest } = leaseOptions
  const names = resources.map((resource) => {
    const own = slotsOf(usual, resource)
    const count = slotsSetFor(set, resource) ?? own
    const [first = resource] = slotNames(resource, own)
    return [first, ...slotNames(resource, Math.max(2, count)).slice(1, count)]
  })
  const random = (): number => systemClock.random()
  return trySlots(names, random, (claim) => locks.tryAcquire(claim, rest))
}

/** Whether a lease of some resources covers no slot above those that are set for them. */
export function isWithin(
  lease: readonly string[],
  resources: readonly string[],
  set: Slots,
): boolean {
  return resources.every((resource) => {
    const slot = lease.find((name) => name.startsWith(`${resource}#`))
    if (slot === undefined || lease.includes(resource)) return true
    return !(Number(slot.slice(resource.length + 1)) > (slotsSetFor(set, resource) ?? Infinity))
  })
}
