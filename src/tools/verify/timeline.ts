/**
 * The leases of one resource on one clock: the monotonic clock of a machine, or the wall clocks of
 * several. Each lease is compared with those that were granted before its end.
 */
import { getOrInsert } from '../../get-or-insert.ts'
import { slotsOf, withoutSlot, type LeaseRecord } from './lease-record.ts'

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
  start: ({ monotonicMs }) => monotonicMs,
  end: ({ trustedUntilMs }) => trustedUntilMs,
  uncertaintyMs: 0,
  compares: () => true,
}

export function wallClock(uncertaintyMs: number): TimelineClock {
  return {
    start: ({ wallMs }) => wallMs,
    end: ({ trustedUntilWallMs }) => trustedUntilWallMs,
    uncertaintyMs,
    compares: (a, b) => a.machine !== b.machine,
  }
}

export interface FoundConflict {
  /** `uncertain`: leases of different machines, too close together for their clocks. */
  readonly kind: Conflict | 'uncertain'
  readonly first: TimelineEntry
  readonly second: TimelineEntry
  /** 0 for a conflict of tokens. */
  readonly overlapMs: number
}

export function* conflictsOf(
  leases: readonly TimelineEntry[],
  clock: TimelineClock,
): Generator<FoundConflict> {
  const entries = [...leases].sort((a, b) => clock.start(a.record) - clock.start(b.record))
  const byName = new Map<string, TimelineEntry[]>()
  for (const [index, entry] of entries.entries()) {
    yield* withLater(entry, entries, index + 1, clock)
    getOrInsert(byName, entry.name, () => []).push(entry)
  }
  for (const ofName of byName.values()) yield* ofTokens(ofName, clock)
}

function* withLater(
  first: TimelineEntry,
  entries: readonly TimelineEntry[],
  from: number,
  clock: TimelineClock,
): Generator<FoundConflict> {
  const { uncertaintyMs } = clock
  const endMs = clock.end(first.record)
  for (let index = from; index < entries.length; index++) {
    const second = entries[index]
    if (second === undefined || clock.start(second.record) >= endMs + uncertaintyMs) return
    if (!clock.compares(first.record, second.record)) continue
    const kind = conflictOf(first, second)
    if (kind === undefined) continue
    const overlapMs = Math.min(endMs, clock.end(second.record)) - clock.start(second.record)
    if (overlapMs > uncertaintyMs) yield { kind, first, second, overlapMs }
    else if (overlapMs > -uncertaintyMs) yield { kind: 'uncertain', first, second, overlapMs }
  }
}

/** What it is when both are trusted at one moment. */
function conflictOf(a: TimelineEntry, b: TimelineEntry): Conflict | undefined {
  if (a.name === b.name) return 'overlap'
  const [slots, others] = [a, b].map(({ name, record }) => slotsOf(record, name))
  // Where slots are set for a resource, a worker asks for each by its name alone.
  const isSet = [a, b].some(({ name, record }) => {
    return withoutSlot(name) !== name && slotsOf(record, name) === 1
  })
  return slots === others || isSet ? undefined : 'slots-differ'
}

/** Of the leases that ended before the next one began, only the highest token matters. */
function* ofTokens(
  entries: readonly TimelineEntry[],
  clock: TimelineClock,
): Generator<FoundConflict> {
  let ended: readonly TimelineEntry[] = []
  let recent: readonly TimelineEntry[] = []
  for (const second of entries) {
    const startMs = clock.start(second.record)
    const isOver = ({ record }: TimelineEntry): boolean =>
      clock.end(record) + clock.uncertaintyMs <= startMs
    ended = highestOf([...ended, ...recent.filter(isOver)])
    recent = recent.filter((other) => !isOver(other))
    const mine = second.record.fencingToken
    const rivals = [...ended, ...recent].filter(({ record }) =>
      clock.compares(record, second.record),
    )
    const same = rivals.find(({ record }) => record.fencingToken === mine)
    const higher = rivals.find((other) => ended.includes(other) && other.record.fencingToken > mine)
    // Its process stood still between the grant and the line of its log, while another was granted.
    const wasOver = second.record.trustedForMs <= 0
    if (same !== undefined) {
      yield { kind: 'token-repeated', first: same, second, overlapMs: 0 }
    } else if (higher !== undefined && !wasOver) {
      yield { kind: 'token-order', first: higher, second, overlapMs: 0 }
    }
    recent = [...recent, second]
  }
}

function highestOf(entries: readonly TimelineEntry[]): readonly TimelineEntry[] {
  const most = Math.max(...entries.map(({ record }) => record.fencingToken))
  return entries.filter(({ record }) => record.fencingToken === most).slice(0, 1)
}
