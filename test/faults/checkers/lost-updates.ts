import type { WriteRecord } from '../history.ts'
import type { StoredEntry } from '../store.ts'

/**
 * A set that only the lock guards: every writer reads the last entry, takes its time, and appends
 * its own with what it had read. An entry that was acknowledged under a trusted lease must have
 * been seen by every entry after it, and must be there at all.
 */
export function lostUpdates(
  resource: string,
  log: readonly StoredEntry[],
  writes: readonly WriteRecord[],
): readonly string[] {
  const acknowledged = new Set(
    writes
      .filter((write) => write.resource === resource && write.accepted && write.trusted)
      .map(({ entry }) => entry),
  )
  const position = new Map(log.map(({ entry }, index) => [entry, index]))
  const missing = [...acknowledged].filter((entry) => !position.has(entry))
  const anomalies = missing.map((entry) => `${resource}: the acknowledged entry ${entry} is gone`)
  let lastAcknowledged = -1
  for (const [index, { entry, seen }] of log.entries()) {
    const seenAt = seen === '' ? -1 : (position.get(seen) ?? -1)
    if (seenAt < lastAcknowledged) {
      const lost = log[lastAcknowledged]?.entry ?? '?'
      anomalies.push(`${resource}: ${entry} was written without having seen ${lost}`)
    }
    if (acknowledged.has(entry)) lastAcknowledged = index
  }
  return anomalies
}
