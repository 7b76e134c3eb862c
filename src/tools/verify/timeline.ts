/**
 * The leases of one resource in the order of their grants, on one clock: the monotonic clock of a
 * machine, or the wall clocks of several. A lease is settled when every line that could concern it
 * has been read: then it is compared with those granted before its end, and forgotten, but for the
 * highest fencing token.
 */
import { getOrInsert } from '../../get-or-insert.ts'
import type { LeaseRecord } from './lease-record.ts'

export type Conflict = 'overlap' | 'slots-differ' | 'token-order' | 'token-repeated'

export interface TimelineSettings {
  readonly clock: 'machine' | 'wall'
  /** By how much two readings of the clock may differ at one moment. */
  readonly uncertaintyMs: number
}

/** A lease on one name: the resource, or one slot of it. */
export interface TimelineEntry {
  readonly name: string
  readonly record: LeaseRecord
}

export interface TimelineReport {
  /** `overlapMs` is 0 for a conflict of tokens. */
  conflict(kind: Conflict, first: TimelineEntry, second: TimelineEntry, overlapMs: number): void
  /** Two leases of different machines, too close together for their clocks. */
  uncertain(): void
}

/** The fencing tokens of one name, of leases that are settled. */
interface Tokens {
  /** The highest of those that surely ended before the leases to come. */
  highest: TimelineEntry | undefined
  recent: readonly TimelineEntry[]
}

export class Timeline {
  readonly #settings: TimelineSettings
  /** Ordered by grant. */
  #entries: TimelineEntry[] = []
  readonly #tokens = new Map<string, Tokens>()
  /** The latest end of a lease that is forgotten. */
  #forgottenUntilMs = -Infinity

  constructor(settings: TimelineSettings) {
    this.#settings = settings
  }

  /** False where it is too late: what it could conflict with may have been forgotten. */
  add(entry: TimelineEntry): boolean {
    const grantedMs = this.#start(entry)
    const after = this.#entries.findLastIndex((other) => this.#start(other) <= grantedMs)
    this.#entries.splice(after + 1, 0, entry)
    return grantedMs >= this.#forgottenUntilMs
  }

  /**
   * Settles the leases that ended before `untilMs`; nothing that is read later began before that.
   */
  settle(untilMs: number, report: TimelineReport): void {
    let done = 0
    for (const entry of this.#entries) {
      if (this.#end(entry) >= untilMs) break
      this.#compare(entry, ++done, report)
      this.#checkToken(entry, report)
      this.#forgottenUntilMs = Math.max(this.#forgottenUntilMs, this.#end(entry))
    }
    if (done > 0) this.#entries = this.#entries.slice(done)
  }

  #start({ record }: TimelineEntry): number {
    return this.#settings.clock === 'machine' ? record.grantedMs : record.grantedWallMs
  }

  #end({ record }: TimelineEntry): number {
    return this.#settings.clock === 'machine' ? record.trustedUntilMs : record.trustedUntilWallMs
  }

  /** Leases of one machine are compared on its own clock, which is exact. */
  #comparable(a: TimelineEntry, b: TimelineEntry): boolean {
    return this.#settings.clock === 'machine' || a.record.machine !== b.record.machine
  }

  #compare(entry: TimelineEntry, from: number, report: TimelineReport): void {
    const { uncertaintyMs } = this.#settings
    const endMs = this.#end(entry)
    for (let index = from; index < this.#entries.length; index++) {
      const other = this.#entries[index]
      if (other === undefined || this.#start(other) >= endMs + uncertaintyMs) return
      if (!this.#comparable(entry, other)) continue
      const kind = conflictOf(entry, other)
      if (kind === undefined) continue
      const overlapMs = Math.min(endMs, this.#end(other)) - this.#start(other)
      if (overlapMs > uncertaintyMs) report.conflict(kind, entry, other, overlapMs)
      else if (overlapMs > -uncertaintyMs) report.uncertain()
    }
  }

  #checkToken(entry: TimelineEntry, report: TimelineReport): void {
    const tokens = getOrInsert(this.#tokens, entry.name, () => ({
      highest: undefined,
      recent: [],
    }))
    this.#forgetRecent(tokens, this.#start(entry))
    const { highest, recent } = tokens
    const mine = entry.record.fencingToken
    const isRival = (other: TimelineEntry): boolean => this.#comparable(other, entry)
    const ended = highest !== undefined && isRival(highest) ? [highest] : []
    const rivals = [...ended, ...recent.filter(isRival)]
    const same = rivals.find(({ record }) => record.fencingToken === mine)
    const higher = ended.find(({ record }) => record.fencingToken > mine)
    if (same !== undefined) report.conflict('token-repeated', same, entry, 0)
    else if (higher !== undefined) report.conflict('token-order', higher, entry, 0)
    tokens.recent = [...recent, entry]
  }

  /**
   * Of those that ended before `startMs`, also by another clock, only the highest token matters.
   */
  #forgetRecent(tokens: Tokens, startMs: number): void {
    const isOver = (entry: TimelineEntry): boolean =>
      this.#end(entry) + this.#settings.uncertaintyMs <= startMs
    for (const entry of tokens.recent.filter(isOver)) {
      const highest = tokens.highest?.record.fencingToken ?? -Infinity
      if (entry.record.fencingToken > highest) tokens.highest = entry
    }
    tokens.recent = tokens.recent.filter((entry) => !isOver(entry))
  }
}

/** What it is when both are trusted at one moment. */
function conflictOf(a: TimelineEntry, b: TimelineEntry): Conflict | undefined {
  if (a.name === b.name) return 'overlap'
  return a.record.slots === b.record.slots ? undefined : 'slots-differ'
}
