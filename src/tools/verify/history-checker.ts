/**
 * Judges the leases of a whole system by what its processes have logged: whether two trusted leases
 * of a resource ever overlapped, whether fencing tokens rose, and which lines are missing. Lines
 * come in any order; memory grows with the number of leases.
 */
import { counted } from '../../counted.ts'
import { getOrInsert } from '../../get-or-insert.ts'
import { messageOf } from '../../message-of.ts'
import {
  newRecord,
  update,
  readLeaseEvent,
  slotsOf,
  withoutSlot,
  type LeaseRecord,
  type EndingKind,
  type GrantedEvent,
  type LeaseEvent,
} from './lease-record.ts'
import {
  conflictsOf,
  MACHINE_CLOCK,
  wallClock,
  type Conflict,
  type FoundConflict,
  type TimelineEntry,
} from './timeline.ts'

/** How logs are judged. */
export interface VerifyOptions {
  /**
   * By how much the wall clocks of two machines may differ at one moment. Leases of different
   * machines overlap for sure when they do for longer than this.
   * @defaultValue 250
   */
  readonly clockSkewMs?: number
}

export type Violation = Conflict | 'revived'
export type Gap = 'lines' | 'grant' | 'end' | 'unreadable'

export interface HistoryFinding {
  readonly kind: Violation | `missing-${Gap}`
  /** In words, with the evidence. */
  readonly text: string
}

/** What the logs show. */
export interface HistoryVerdict {
  /** `incomplete`: no violation in what is there, but lines are missing. */
  readonly verdict: 'clean' | 'violated' | 'incomplete' | 'empty'
  /** How many lines were read, also about other things. */
  readonly lines: number
  /** How many leases were granted. */
  readonly leases: number
  /** How many resources they were on. */
  readonly resources: number
  /** How many machines logged them. */
  readonly machines: number
  /** Instances of `Redlock`, in all processes. */
  readonly locks: number
  /** How often a lease was extended. */
  readonly extensions: number
  /** `unended`: their process stopped logging while it held them. */
  readonly endings: Readonly<Record<EndingKind | 'unended', number>>
  /** How many of each kind. */
  readonly violations: Readonly<Record<Violation, number>>
  /** How many gaps of each kind. */
  readonly missing: Readonly<Record<Gap, number>>
  /**
   * Pairs of leases on different machines that were closer together than `clockSkewMs`: not judged
   * by time.
   */
  readonly uncertain: number
  /** The longest time for which two leases overlapped. */
  readonly longestOverlapMs: number
  /** The first ones of each kind. */
  readonly findings: readonly HistoryFinding[]
  /** The option, or its default. */
  readonly clockSkewMs: number
}

const CLOCK_SKEW_MS = 250
const MAX_FINDINGS_OF_A_KIND = 20
/**
 * An instance that goes on logging this long after a lease was over has lost the line of its end.
 */
const END_LINE_MS = 5_000

/** One instance of `Redlock`. */
interface Lock {
  readonly name: string
  readonly records: Map<number, LeaseRecord>
  /** The number of the line that comes next, and those that came before it. */
  nextSeq: number
  readonly ahead: Map<number, LeaseEvent>
  lastMs: number
}

export class HistoryChecker {
  readonly #clockSkewMs: number
  readonly #locks = new Map<string, Lock>()
  readonly #machines = new Set<string>()
  /** By what a lease covers. */
  readonly #byName = new Map<string, TimelineEntry[]>()
  /** Resources that have several holders at once. */
  readonly #slotted = new Set<string>()
  readonly #found = {
    ...{ lines: 0, leases: 0, extensions: 0, uncertain: 0, longestOverlapMs: 0 },
    endings: { released: 0, 'handed-over': 0, lost: 0, unended: 0 },
    violations: {
      ...{ overlap: 0, 'slots-differ': 0 },
      ...{ 'token-order': 0, 'token-repeated': 0, revived: 0 },
    },
    missing: { lines: 0, grant: 0, end: 0, unreadable: 0 },
    findings: [] as HistoryFinding[],
  }

  constructor({ clockSkewMs = CLOCK_SKEW_MS }: VerifyOptions = {}) {
    this.#clockSkewMs = clockSkewMs
  }

  /** `where` names the line in messages. */
  read(line: string | object, where: string): void {
    this.#found.lines++
    try {
      const event = readLeaseEvent(line)
      if (event !== undefined) this.#add(event)
    } catch (error) {
      this.#gap('unreadable', `${where} cannot be read: ${messageOf(error)}`)
    }
  }

  /** When all has been read. */
  verdict(): HistoryVerdict {
    for (const lock of this.#locks.values()) {
      this.#skipMissing(lock)
      for (const record of lock.records.values()) this.#checkEnd(lock, record)
    }
    const wall = wallClock(this.#clockSkewMs)
    const byResource = this.#byResource()
    for (const entries of byResource.values()) {
      for (const machine of new Set(entries.map(({ record }) => record.machine))) {
        const own = entries.filter(({ record }) => record.machine === machine)
        for (const conflict of conflictsOf(own, MACHINE_CLOCK)) this.#conflict(conflict)
      }
      for (const conflict of conflictsOf(entries, wall)) this.#conflict(conflict)
    }
    const { violations, missing, leases } = this.#found
    const violated = Object.values(violations).some((count) => count > 0)
    const incomplete = Object.values(missing).some((count) => count > 0)
    const clean = leases === 0 ? 'empty' : 'clean'
    return {
      ...this.#found,
      verdict: violated ? 'violated' : incomplete ? 'incomplete' : clean,
      resources: byResource.size,
      machines: this.#machines.size,
      locks: this.#locks.size,
      clockSkewMs: this.#clockSkewMs,
    }
  }

  /** The lines of one instance are numbered, in whichever order they come. */
  #add(event: LeaseEvent): void {
    const name = event.lock
    const lock = getOrInsert(this.#locks, name, () => ({
      ...{ name, records: new Map(), lastMs: 0, nextSeq: 1, ahead: new Map() },
    }))
    if (event.seq < lock.nextSeq) return // It was read before.
    lock.ahead.set(event.seq, event)
    this.#takeInOrder(lock)
  }

  #takeInOrder(lock: Lock): void {
    for (let event = lock.ahead.get(lock.nextSeq); event; event = lock.ahead.get(lock.nextSeq)) {
      lock.ahead.delete(lock.nextSeq++)
      lock.lastMs = Math.max(lock.lastMs, event.monotonicMs)
      if (event.kind === 'granted') this.#grant(lock, event)
      else this.#change(lock, event)
    }
  }

  /** Goes on after lines that are missing. */
  #skipMissing(lock: Lock): void {
    for (const seq of [...lock.ahead.keys()].sort((a, b) => a - b)) {
      if (seq < lock.nextSeq) continue
      const count = seq - lock.nextSeq
      this.#gap('lines', `${counted(count, 'line')} of lock ${lock.name} before line ${seq}`, count)
      lock.nextSeq = seq
      this.#takeInOrder(lock)
    }
  }

  #grant(lock: Lock, event: GrantedEvent): void {
    const record = newRecord(event)
    lock.records.set(event.lease, record)
    this.#found.leases++
    this.#machines.add(record.machine)
    for (const name of record.names) {
      const told = `${record.namespace}: ${name}`
      if (slotsOf(record, name) > 1) this.#slotted.add(withoutSlot(told))
      getOrInsert(this.#byName, told, () => []).push({ name, record })
    }
  }

  /** Where conflicts are looked for: a resource with all of its slots. */
  #byResource(): ReadonlyMap<string, readonly TimelineEntry[]> {
    const found = new Map<string, readonly TimelineEntry[]>()
    for (const [name, entries] of this.#byName) {
      const resource = withoutSlot(name)
      const where = this.#slotted.has(resource) ? resource : name
      found.set(where, [...(found.get(where) ?? []), ...entries])
    }
    return found
  }

  #change(lock: Lock, event: Exclude<LeaseEvent, GrantedEvent>): void {
    const record = lock.records.get(event.lease)
    const { resource, fencingToken, kind } = event
    if (record === undefined) {
      const what = `${resource} (token ${fencingToken}) was ${kind}, and no line says that it was granted`
      this.#gap('grant', what)
    } else if (record.end !== undefined) {
      this.#violation('revived', `${describe(record)} was ${kind} after it was ${record.end}`)
    } else {
      update(record, event)
      if (kind === 'extended') this.#found.extensions++
      else this.#found.endings[kind]++
    }
  }

  #checkEnd(lock: Lock, record: LeaseRecord): void {
    if (record.end !== undefined) return
    if (lock.lastMs > record.trustedUntilMs + END_LINE_MS) {
      this.#gap('end', `${describe(record)} has no end, although its lock logged later lines`)
    } else this.#found.endings.unended++
  }

  #conflict({ kind, first, second, overlapMs }: FoundConflict): void {
    if (kind === 'uncertain') {
      this.#found.uncertain++
      return
    }
    this.#found.longestOverlapMs = Math.max(this.#found.longestOverlapMs, overlapMs)
    const how = overlapMs > 0 ? ` for ${overlapMs.toFixed(3)} ms` : ''
    const text = `${WORDS[kind]}${how}: ${describe(first.record)}, ${describe(second.record)}`
    this.#violation(kind, text)
  }

  #violation(kind: Violation, text: string): void {
    this.#tell(this.#found.violations[kind]++, { kind, text })
  }

  #gap(kind: Gap, text: string, count = 1): void {
    this.#tell(this.#found.missing[kind], { kind: `missing-${kind}`, text })
    this.#found.missing[kind] += count
  }

  #tell(before: number, finding: HistoryFinding): void {
    if (before < MAX_FINDINGS_OF_A_KIND) this.#found.findings.push(finding)
  }
}

const WORDS: Readonly<Record<Conflict, string>> = {
  overlap: 'two holders',
  'slots-differ': 'holders with different `slots`',
  'token-order': 'a fencing token that did not rise',
  'token-repeated': 'one fencing token for two leases',
}

function describe({ namespace, names, owner, fencingToken, end, ...record }: LeaseRecord): string {
  const from = new Date(record.wallMs).toISOString()
  const heldMs = (record.trustedUntilMs - record.monotonicMs).toFixed(1)
  const resource = names.join(' + ')
  return `${resource} of ${namespace} by ${owner} (token ${fencingToken}, from ${from}, trusted for ${heldMs} ms, ${end ?? 'no end'})`
}
