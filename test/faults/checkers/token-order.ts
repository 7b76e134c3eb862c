import type { LeaseRecord } from '../history.ts'
import { byResource } from './exclusion.ts'

/** Fencing tokens of a resource are unique, and a lease that began after another was granted has the higher one. */
export function tokenDisorder(leases: Iterable<LeaseRecord>): readonly string[] {
  return [...byResource(leases)].flatMap(([resource, records]) => [
    ...repeated(resource, records),
    ...inverted(resource, records),
  ])
}

function repeated(resource: string, records: readonly LeaseRecord[]): readonly string[] {
  const seen = new Set<number>()
  return records.flatMap(({ fencingToken }) => {
    if (!seen.has(fencingToken)) {
      seen.add(fencingToken)
      return []
    }
    return [`${resource}: two leases with token ${fencingToken}`]
  })
}

function inverted(resource: string, records: readonly LeaseRecord[]): readonly string[] {
  const byGrant = [...records].sort((a, b) => a.grantedAt - b.grantedAt)
  const byAttempt = [...records].sort((a, b) => a.attemptAt - b.attemptAt)
  const anomalies: string[] = []
  let highest = 0
  let next = 0
  for (const record of byAttempt) {
    for (
      let earlier = byGrant[next];
      earlier !== undefined && earlier.grantedAt < record.attemptAt;
      earlier = byGrant[++next]
    ) {
      highest = Math.max(highest, earlier.fencingToken)
    }
    if (record.fencingToken <= highest) {
      anomalies.push(`${resource}: token ${record.fencingToken} was granted after ${highest}`)
    }
  }
  return anomalies
}
