/**
 * The leases of one resource on one clock: the monotonic clock of a machine, or the wall clocks of
 * several. Each lease is compared with those that were granted before its end.
 */
import { getOrInsert } from '../../get-or-insert.ts'
import type { LeaseRecord } from './lease-record.ts'

export type Conflict = 'overlap' | 'slots-differ' | 'token-order' | 'token-repeated'

/** A lease on one name: the resource, or one slot of it. */
export interface TimelineEntry {
  readonly name: string
  readonly record: LeaseRecord
}

export interface TimelineClock {
  start(record: LeaseRecord): number
  end(record: LeaseRecord): number
  /** By how much two readings of the clock may differ at one moment. */
  readonly uncertaintyMs: number
  /** Whether leases are compared on this clock. */
  compares(a: LeaseRecord, b: LeaseRecord): boolean
}

/** Leases of one machine are compared on its own clock, which is exact. */
export const MACHINE_CLOCK: TimelineClock = {
  start: ({ grantedMs }) => grantedMs,
  end: ({ trustedUntilMs }) => trustedUntilMs,
  uncertaintyMs: 0,
  compares: () => true,
}

export function wallClock(uncertaintyMs: number): TimelineClock {
  return {
    start: ({ grantedWallMs }) => grantedWallMs,
    end: ({ trustedUntilWallMs }) => trustedUntilWallMs,
    uncertaintyMs,
    compares: (a, b) => a.machine !== b.machine,
  }
}

export interface TimelineReport {
  /** `overlapMs` is 0 for a conflict of tokens. */
  conflict(kind: Conflict, first: TimelineEntry, second: TimelineEntry, overlapMs: number): void
  /** Two leases of different machines, too close together for their clocks. */
  uncertain(): void
}

export function judge(
  leases: readonly TimelineEntry[],
  clock: TimelineClock,
  report: TimelineReport,
): void {
  const entries = [...leases].sort((a, b) => clock.start(a.record) - clock.start(b.record))
  const byName = new Map<string, TimelineEntry[]>()
  for (const [index, entry] of entries.entries()) {
    compareWithLater(entry, entries, index + 1, clock, report)
    getOrInsert(byName, entry.name, () => []).push(entry)
  }
  for (const ofName of byName.values()) checkTokens(ofName, clock, report)
}

function compareWithLater(
  entry: TimelineEntry,
  entries: readonly TimelineEntry[],
  from: number,
  clock: TimelineClock,
  report: TimelineReport,
): void {
  const { uncertaintyMs } = clock
  const endMs = clock.end(entry.record)
  for (let index = from; index < entries.length; index++) {
    const other = entries[index]
    if (other === undefined || clock.start(other.record) >= endMs + uncertaintyMs) return
    if (!clock.compares(entry.record, other.record)) continue
    const kind = conflictOf(entry, other)
    if (kind === undefined) continue
    const overlapMs = Math.min(endMs, clock.end(other.record)) - clock.start(other.record)
    if (overlapMs > uncertaintyMs) report.conflict(kind, entry, other, overlapMs)
    else if (overlapMs > -uncertaintyMs) report.uncertain()
  }
}

/** What it is when both are trusted at one moment. */
function conflictOf(a: TimelineEntry, b: TimelineEntry): Conflict | undefined {
  if (a.name === b.name) return 'overlap'
  return a.record.slots === b.record.slots ? undefined : 'slots-differ'
}

/** Of the leases that ended before the next one began, only the highest token matters. */
function checkTokens(
  entries: readonly TimelineEntry[],
  clock: TimelineClock,
  report: TimelineReport,
): void {
  let ended: readonly TimelineEntry[] = []
  let recent: readonly TimelineEntry[] = []
  for (const entry of entries) {
    const startMs = clock.start(entry.record)
    const isOver = ({ record }: TimelineEntry): boolean =>
      clock.end(record) + clock.uncertaintyMs <= startMs
    ended = highestOf([...ended, ...recent.filter(isOver)])
    recent = recent.filter((other) => !isOver(other))
    const mine = entry.record.fencingToken
    const rivals = [...ended, ...recent].filter(({ record }) =>
      clock.compares(record, entry.record),
    )
    const same = rivals.find(({ record }) => record.fencingToken === mine)
    const higher = rivals.find((other) => ended.includes(other) && other.record.fencingToken > mine)
    if (same !== undefined) report.conflict('token-repeated', same, entry, 0)
    else if (higher !== undefined) report.conflict('token-order', higher, entry, 0)
    recent = [...recent, entry]
  }
}

function highestOf(entries: readonly TimelineEntry[]): readonly TimelineEntry[] {
  const most = Math.max(...entries.map(({ record }) => record.fencingToken))
  return entries.filter(({ record }) => record.fencingToken === most).slice(0, 1)
}
