/** The length of a lease, checked. */
import { integerOption, refuse } from '../options.ts'

export const MIN_LEASE_MS = 100

/** @throws TypeError when the lease is too short to be trusted at all, or longer than the fleet allows. */
export function leaseOption(leaseMs: unknown, maxLeaseMs: number): number {
  if (typeof leaseMs === 'number' && leaseMs > maxLeaseMs) {
    refuse(
      'leaseMs',
      `at most \`maxLeaseMs\` (${maxLeaseMs}, one value for the whole fleet)`,
      leaseMs,
    )
  }
  return integerOption('leaseMs', leaseMs, MIN_LEASE_MS, maxLeaseMs)
}
