import { trustEnd, type LeaseRecord } from '../history.ts'

/** Times during which exclusion is not promised, because a clock was made to step. */
export interface Excuse {
  readonly from: number
  readonly until: number
}

/** No two holders trusted their leases on one resource at the same time. */
export function overlaps(
  leases: Iterable<LeaseRecord>,
  excuses: readonly Excuse[] = [],
): readonly string[] {
  const anomalies: string[] = []
  for (const [resource, records] of byResource(leases)) {
    const held = records
      .filter((record) => trustEnd(record) > record.grantedAt)
      .sort((a, b) => a.grantedAt - b.grantedAt)
    let longest: LeaseRecord | undefined
    for (const record of held) {
      const overlapMs = longest === undefined ? 0 : trustEnd(longest) - record.grantedAt
      const until = record.grantedAt + overlapMs
      if (overlapMs > 0 && !excuses.some((e) => e.from < until && e.until > record.grantedAt)) {
        anomalies.push(
          `${resource}: two holders for ${overlapMs.toFixed(3)} ms: ${longest === undefined ? '' : nameOf(longest)}, ${nameOf(record)}`,
        )
      }
      if (longest === undefined || trustEnd(record) > trustEnd(longest)) longest = record
    }
  }
  return anomalies
}

export function byResource(
  leases: Iterable<LeaseRecord>,
): ReadonlyMap<string, readonly LeaseRecord[]> {
  const grouped = new Map<string, LeaseRecord[]>()
  for (const record of leases) {
    const records = grouped.get(record.resource)
    if (records === undefined) grouped.set(record.resource, [record])
    else records.push(record)
  }
  return grouped
}

function nameOf({ lease, fencingToken, how }: LeaseRecord): string {
  return `${lease} (token ${fencingToken}, ${how ?? 'never ended'})`
}
