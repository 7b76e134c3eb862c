import type { WriteRecord } from '../history.ts'
import type { StoredEntry } from '../store.ts'

/**
 * The store's own log: tokens never go back and each belongs to one lease. And nobody who still
 * trusted its lease was refused, which would mean that somebody newer had written under it.
 */
export function storeDisorder(
  resource: string,
  log: readonly StoredEntry[],
  writes: readonly WriteRecord[],
): readonly string[] {
  const anomalies: string[] = []
  const leaseOf = new Map<number, string>()
  let highest = 0
  for (const { entry, fencingToken } of log) {
    if (fencingToken < highest) {
      anomalies.push(`${resource}: the store took token ${fencingToken} after ${highest}`)
    }
    highest = Math.max(highest, fencingToken)
    const lease = leaseNameOf(entry)
    const known = leaseOf.get(fencingToken) ?? lease
    leaseOf.set(fencingToken, known)
    if (known !== lease) anomalies.push(`${resource}: ${known} and ${lease} wrote with one token`)
  }
  for (const write of writes) {
    if (write.resource === resource && !write.accepted && write.trusted) {
      anomalies.push(`${resource}: ${write.lease} trusted its lease and was refused by the store`)
    }
  }
  return anomalies
}

/** Entries are `<lease>#<number>`. */
function leaseNameOf(entry: string): string {
  return entry.slice(0, entry.lastIndexOf('#'))
}
