/** The length and the limits of a lease, checked. */
import { integerOption, refuse } from '../options.ts'
import type { LeaseOptions } from './acquire-options.ts'
import { checkedSlots, type Slots } from '../slots.ts'

export const MIN_LEASE_MS = 100

/** How long a lease may last, and who extends it. */
export interface LeaseTerms {
  readonly leaseMs: number
  readonly autoExtend: boolean
  readonly maxHoldMs: number
  readonly maxExtensions: number
  /** How many holders each resource may have at once. */
  readonly slots: Slots
}

/** What a lock service takes where a call does not say. */
export interface LeaseDefaults {
  readonly leaseMs: number
  readonly maxLeaseMs: number
  readonly maxHoldMs: number
  readonly maxExtensions: number
}

/** @throws TypeError for a bad option, naming it. */
export function leaseTerms(options: LeaseOptions, defaults: LeaseDefaults): LeaseTerms {
  const any = Number.MAX_SAFE_INTEGER
  const leaseMs = leaseOption(options.leaseMs ?? defaults.leaseMs, defaults.maxLeaseMs)
  const maxHoldMs = options.maxHoldMs ?? defaults.maxHoldMs
  const maxExtensions = options.maxExtensions ?? defaults.maxExtensions
  return {
    leaseMs,
    autoExtend: options.autoExtend ?? false,
    slots: checkedSlots(options.slots ?? 1),
    maxHoldMs: integerOption('maxHoldMs', maxHoldMs, leaseMs, any),
    maxExtensions: integerOption('maxExtensions', maxExtensions, 0, any),
  }
}

/**
 * @throws TypeError when the lease is too short to be trusted at all, or longer than the fleet
 * allows.
 */
export function leaseOption(leaseMs: unknown, maxLeaseMs: number): number {
  if (typeof leaseMs === 'number' && leaseMs > maxLeaseMs) {
    const expected = `at most \`maxLeaseMs\` (${maxLeaseMs}, one value for the whole fleet)`
    refuse('leaseMs', expected, leaseMs)
  }
  return integerOption('leaseMs', leaseMs, MIN_LEASE_MS, maxLeaseMs)
}
