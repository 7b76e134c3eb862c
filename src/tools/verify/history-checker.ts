/**
 * Judges the leases of a whole system by what its processes have logged: whether two trusted leases
 * of a resource ever overlapped, whether fencing tokens rose, and which lines are missing. Lines
 * come roughly in the order of time; memory grows with the number of resources and instances, not
 * with the number of lines.
 */
import { getOrInsert } from '../../get-or-insert.ts'
import type { GrantedEvent, EndingKind, LeaseEvent } from './lease-event.ts'
import { groupOf, newRecord, update, type LeaseRecord } from './lease-record.ts'
import { Timeline, type Conflict, type TimelineEntry } from './timeline.ts'

export interface HistoryOptions {
  /**
   * By how much the wall clocks of two machines may differ at one moment. Leases of different
   * machines overlap for sure when they do for longer than this.
   * @defaultValue 250
   */
  readonly clockSkewMs?: number
  /** How far lines may be out of order. @defaultValue 60 000 */
  readonly windowMs?: number
}

export type Violation = Conflict | 'revived'
export type Gap = 'lines' | 'grant' | 'end' | 'late' | 'unreadable'

export interface HistoryFinding {
  readonly kind: Violation | `missing-${Gap}`
  /** In words, with the evidence. */
  readonly text: string
}

/** What the logs show. */
export interface HistoryVerdict {
  /** `incomplete`: no violation in what is there, but lines are missing. */
  readonly verdict: 'clean' | 'violated' | 'incomplete' | 'empty'
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
const WINDOW_MS = 60_000
/** Events between two looks for leases that can be settled. */
const SETTLE_EVERY = 256
const MAX_FINDINGS_OF_A_KIND = 20
/**
 * An instance that goes on logging this long after a lease was over has lost the line of its end.
 */
const END_LINE_MS = 5_000

/** One instance of `Redlock`. */
interface Lock {
  readonly name: string
  machine: string | undefined
  readonly records: Map<number, LeaseRecord>
  /** The number of the line that comes next, and those that came before it. */
  nextSeq: number
  readonly ahead: Map<number, LeaseEvent>
  lastMs: number
}

/** The latest that was read of a machine. */
interface Times {
  monotonicMs: number
  wallMs: number
}

/** A resource. */
interface Group {
  readonly machines: Map<string, Timeline>
  readonly wall: Timeline
}

export class HistoryChecker {
  readonly #clockSkewMs: number
  readonly #windowMs: number
  readonly #locks = new Map<string, Lock>()
  /** Those that have lines ahead. */
  readonly #waiting = new Set<Lock>()
  readonly #groups = new Map<string, Group>()
  readonly #machines = new Map<string, Times>()
  /** The latest that was read, of any machine. */
  #latestWallMs = -Infinity
  /** Leases that are not settled, in the order of their grants. */
  readonly #open: LeaseRecord[] = []
  #events = 0
  readonly #found = {
    ...{ leases: 0, extensions: 0, uncertain: 0, longestOverlapMs: 0 },
    endings: { released: 0, 'handed-over': 0, lost: 0, unended: 0 },
    violations: {
      ...{ overlap: 0, 'slots-differ': 0 },
      ...{ 'token-order': 0, 'token-repeated': 0, revived: 0 },
    },
    missing: { lines: 0, grant: 0, end: 0, late: 0, unreadable: 0 },
    findings: [] as HistoryFinding[],
  }

  constructor({ clockSkewMs = CLOCK_SKEW_MS, windowMs = WINDOW_MS }: HistoryOptions = {}) {
    this.#clockSkewMs = clockSkewMs
    this.#windowMs = windowMs
  }

  add(event: LeaseEvent): void {
    const lock = this.#lockOf(event)
    if (event.seq < lock.nextSeq) return // It was read before.
    lock.ahead.set(event.seq, event)
    if (event.kind === 'granted') lock.machine = event.machine
    this.#latestWallMs = Math.max(this.#latestWallMs, event.wallMs)
    if (lock.machine !== undefined) {
      const times = this.#timesOf(lock.machine)
      times.monotonicMs = Math.max(times.monotonicMs, event.monotonicMs)
      times.wallMs = Math.max(times.wallMs, event.wallMs)
    }
    this.#takeInOrder(lock)
    if (++this.#events % SETTLE_EVERY === 0) this.#settleSome()
  }

  /** A line that says it is about a lease and cannot be read. */
  unreadable(where: string, problem: string): void {
    this.#gap('unreadable', `${where} cannot be read: ${problem}`)
  }

  /** When all has been read. */
  verdict(): HistoryVerdict {
    this.#settleAll()
    const { violations, missing, leases } = this.#found
    const violated = Object.values(violations).some((count) => count > 0)
    const incomplete = Object.values(missing).some((count) => count > 0)
    const clean = leases === 0 ? 'empty' : 'clean'
    return {
      ...this.#found,
      verdict: violated ? 'violated' : incomplete ? 'incomplete' : clean,
      resources: this.#groups.size,
      machines: this.#machines.size,
      locks: this.#locks.size,
      clockSkewMs: this.#clockSkewMs,
    }
  }

  #lockOf({ lock: name }: LeaseEvent): Lock {
    return getOrInsert(this.#locks, name, () => ({
      ...{ name, machine: undefined, records: new Map(), lastMs: 0 },
      ...{ nextSeq: 1, ahead: new Map() },
    }))
  }

  /** The lines of one instance are numbered, in whichever order they come. */
  #takeInOrder(lock: Lock): void {
    for (;;) {
      const event = lock.ahead.get(lock.nextSeq)
      if (event === undefined) break
      lock.ahead.delete(lock.nextSeq++)
      this.#take(lock, event)
    }
    if (lock.ahead.size > 0) this.#waiting.add(lock)
    else this.#waiting.delete(lock)
  }

  #take(lock: Lock, event: LeaseEvent): void {
    lock.lastMs = Math.max(lock.lastMs, event.monotonicMs)
    if (event.kind === 'granted') this.#grant(lock, event)
    else this.#change(lock, event)
  }

  /** Goes on after lines that are missing, where those behind them were logged before `untilMs`. */
  #skipMissing(untilMs: number): void {
    for (const lock of this.#waiting) {
      while (lock.ahead.size > 0) {
        const seq = Math.min(...lock.ahead.keys())
        if ((lock.ahead.get(seq)?.wallMs ?? 0) >= untilMs) break
        const count = seq - lock.nextSeq
        this.#gap('lines', `${count} lines of lock ${lock.name} before line ${seq}`, count)
        lock.nextSeq = seq
        this.#takeInOrder(lock)
      }
    }
  }

  #grant(lock: Lock, event: GrantedEvent): void {
    const record = newRecord(event)
    lock.records.set(event.lease, record)
    this.#found.leases++
    this.#open.push(record)
    let inTime = true
    for (const name of record.names) {
      const entry = { name, record }
      const { machines, wall } = this.#groupOf(record, name)
      const machine = getOrInsert(
        machines,
        record.machine,
        () => new Timeline({ clock: 'machine', uncertaintyMs: 0 }),
      )
      inTime = machine.add(entry) && inTime
      inTime = (wall.add(entry) || machines.size === 1) && inTime
    }
    if (!inTime)
      this.#gap('late', `${describe(record)} was logged after later leases had been judged`)
  }

  #change(lock: Lock, event: Exclude<LeaseEvent, GrantedEvent>): void {
    const record = lock.records.get(event.lease)
    const { resource, fencingToken, kind } = event
    if (record === undefined) {
      const what = `${resource} (token ${fencingToken}) was ${kind}, and no line says that it was granted`
      this.#gap('grant', what)
      return
    }
    if (record.end !== undefined) {
      this.#violation('revived', `${describe(record)} was ${kind} after it was ${record.end}`)
      return
    }
    update(record, event)
    if (event.kind === 'extended') this.#found.extensions++
    else this.#found.endings[event.kind]++
  }

  #groupOf(record: LeaseRecord, name: string): Group {
    return getOrInsert(this.#groups, groupOf(record, name), () => ({
      machines: new Map(),
      wall: new Timeline({ clock: 'wall', uncertaintyMs: this.#clockSkewMs }),
    }))
  }

  #timesOf(machine: string): Times {
    const never = { monotonicMs: -Infinity, wallMs: -Infinity }
    return getOrInsert(this.#machines, machine, () => never)
  }

  /** Until when all has been read of a machine. What logs nothing any more has nothing to come. */
  #readUntilMs(machine: string): number {
    const { monotonicMs, wallMs } = this.#timesOf(machine)
    const silent = wallMs + 2 * this.#windowMs < this.#latestWallMs
    return silent ? Infinity : monotonicMs - 2 * this.#windowMs
  }

  /** Settles what ended so long ago that no line about it is to come. */
  #settleSome(): void {
    this.#skipMissing(this.#latestWallMs - this.#windowMs)
    const wallUntilMs = this.#latestWallMs - 2 * this.#windowMs
    let done = 0
    for (const record of this.#open) {
      if (record.trustedUntilWallMs >= wallUntilMs) break
      if (record.trustedUntilMs >= this.#readUntilMs(record.machine)) break
      done++
      this.#closed(record)
      for (const name of record.names) {
        const { machines, wall } = this.#groupOf(record, name)
        for (const [machine, timeline] of machines) {
          timeline.settle(this.#readUntilMs(machine), this.#report)
        }
        wall.settle(wallUntilMs, this.#report)
      }
    }
    if (done > 0) this.#open.splice(0, done)
  }

  #settleAll(): void {
    this.#skipMissing(Infinity)
    for (const record of this.#open.splice(0)) this.#closed(record)
    for (const { machines, wall } of this.#groups.values()) {
      for (const timeline of machines.values()) timeline.settle(Infinity, this.#report)
      wall.settle(Infinity, this.#report)
    }
  }

  /** Its trust is over, and no line about it is to come. */
  #closed(record: LeaseRecord): void {
    if (record.end !== undefined) return
    const lock = this.#locks.get(record.lock)
    if (lock !== undefined && lock.lastMs > record.trustedUntilMs + END_LINE_MS) {
      this.#gap('end', `${describe(record)} has no end, although its lock logged later lines`)
    } else this.#found.endings.unended++
  }

  readonly #report = {
    conflict: (
      kind: Conflict,
      first: TimelineEntry,
      second: TimelineEntry,
      overlapMs: number,
    ): void => {
      this.#found.longestOverlapMs = Math.max(this.#found.longestOverlapMs, overlapMs)
      const how = overlapMs > 0 ? ` for ${overlapMs.toFixed(3)} ms` : ''
      const text = `${WORDS[kind]}${how}: ${describe(first.record)}, ${describe(second.record)}`
      this.#violation(kind, text)
    },
    uncertain: (): void => {
      this.#found.uncertain++
    },
  }

  #violation(kind: Violation, text: string): void {
    if (this.#found.violations[kind]++ < MAX_FINDINGS_OF_A_KIND)
      this.#found.findings.push({ kind, text })
  }

  #gap(kind: Gap, text: string, count = 1): void {
    if (this.#found.missing[kind] < MAX_FINDINGS_OF_A_KIND) {
      this.#found.findings.push({ kind: `missing-${kind}`, text })
    }
    this.#found.missing[kind] += count
  }
}

const WORDS: Readonly<Record<Conflict, string>> = {
  overlap: 'two holders',
  'slots-differ': 'holders with different `slots`',
  'token-order': 'a fencing token that did not rise',
  'token-repeated': 'one fencing token for two leases',
}

function describe({ namespace, names, owner, fencingToken, end, ...record }: LeaseRecord): string {
  const from = new Date(record.grantedWallMs).toISOString()
  const heldMs = (record.trustedUntilMs - record.grantedMs).toFixed(1)
  const resource = names.join(' + ')
  return `${resource} of ${namespace} by ${owner} (token ${fencingToken}, from ${from}, trusted for ${heldMs} ms, ${end ?? 'no end'})`
}
