/** What several looks tell: the last minutes in a few numbers, and lost leases. Pure. */
import { added } from '../../added.ts'
import type { LiveLease, LiveLeases } from '../operator/live-leases.ts'
import type { FinishedRates, QueueCounts } from '../operator/queue-counts.ts'
import { hasQuorum, tooFewAnswer } from '../operator/fleet-probe.ts'

/** One snapshot, as charts need it. `undefined` where it is not known. */
export interface Sample {
  /** Milliseconds since 1970. */
  readonly at: number
  readonly held: number | undefined
  readonly waiting: number | undefined
  readonly active: number | undefined
  /** Jobs that completed, a second. */
  readonly completed: number | undefined
  /** Jobs that failed, a second. */
  readonly failed: number | undefined
}

type Counts = Pick<QueueCounts, 'waiting' | 'active'>

/** One sample in so much time. */
const EVERY_MS = 5_000
const MAX_AGE_MS = 5 * 60_000

/** For charts. */
export class History {
  #samples: readonly Sample[] = []

  /** Adds a sample, and returns what is known of the last minutes, oldest first. */
  add(
    at: number,
    { leases }: LiveLeases,
    { unknown }: LeaseChanges,
    queues: readonly QueueCounts[] | null,
    rates: readonly FinishedRates[],
  ): readonly Sample[] {
    const isWhole = queues?.every(({ missing }) => missing === undefined) === true
    const now = isWhole ? added<Counts>([{ waiting: 0, active: 0 }, ...queues]) : undefined
    const ended = isWhole && rates.length > 0 ? added(rates) : undefined
    const sample: Sample = {
      at,
      held:
        unknown === undefined ? leases.filter(({ state }) => state === 'held').length : undefined,
      waiting: now?.waiting,
      active: now?.active,
      completed: ended?.completed,
      failed: ended?.failed,
    }
    const before = this.#samples.at(-1)
    const isNew = before === undefined || slot(at) !== slot(before.at)
    const earlier = isNew ? this.#samples : this.#samples.slice(0, -1)
    this.#samples = [...earlier, sample].filter((one) => at - one.at <= MAX_AGE_MS)
    return this.#samples
  }
}

const slot = (at: number): number => Math.floor(at / EVERY_MS)

/** A lease that was not extended and ended by itself; `at` is when it was found to be gone. */
interface LapsedLease extends Pick<LiveLease, 'resource' | 'holder' | 'fencingToken'> {
  readonly at: number
}

export interface LeaseChanges {
  /** Newest first. */
  readonly lapsed: readonly LapsedLease[]
  /** Why nothing can be said at the moment. */
  readonly unknown: string | undefined
}

interface Known {
  readonly lease: LiveLease
  readonly endsAt: number
  /** Looks in a row that saw the same end. */
  readonly sights: number
}

const MAX_LAPSED = 20
/** Two looks at the same end differ by how long their questions took. */
const SAME_END_MS = 250

/**
 * What looks at the masters, one after the other, tell of leases that were not released. A lease
 * whose time ran out, as it was seen to do in two looks without an extension, was not released: its
 * holder died, froze, or could not extend it. One that began and ended between two looks was not
 * seen.
 */
export class LeaseWatch {
  #known: ReadonlyMap<string, Known> | undefined
  #lapsed: readonly LapsedLease[] = []

  /** `now` is monotonic, `wallNow` is for people. */
  seen(found: LiveLeases, now: number, wallNow: number): LeaseChanges {
    const unknown = whyUnknown(found)
    const known = unknown === undefined ? this.#knownFrom(found, now) : undefined
    if (known !== undefined && this.#known !== undefined) this.#compare(known, now, wallNow)
    this.#known = known
    return { lapsed: this.#lapsed, unknown }
  }

  #knownFrom({ leases }: LiveLeases, now: number): ReadonlyMap<string, Known> {
    const known = new Map<string, Known>()
    for (const lease of leases) {
      // A leftover never had a holder; one that was held stays known while it fades.
      const key = JSON.stringify([lease.resource, lease.holder])
      const before = this.#known?.get(key)
      if (lease.state !== 'held' && before === undefined) continue
      const endsAt = now + lease.freeInMs
      const same = before !== undefined && Math.abs(before.endsAt - endsAt) < SAME_END_MS
      const seen = lease.state === 'held' ? lease : (before?.lease ?? lease)
      known.set(key, { lease: seen, endsAt, sights: same ? before.sights + 1 : 1 })
    }
    return known
  }

  #compare(known: ReadonlyMap<string, Known>, now: number, wallNow: number): void {
    const lapsed = [...(this.#known ?? [])]
      .filter(([key, { endsAt, sights }]) => !known.has(key) && sights > 1 && endsAt <= now)
      .map(([, { lease }]) => {
        const { resource, holder, fencingToken } = lease
        return { resource, holder, fencingToken, at: wallNow }
      })
    this.#lapsed = [...lapsed, ...this.#lapsed].slice(0, MAX_LAPSED)
  }
}

function whyUnknown(found: LiveLeases): LeaseChanges['unknown'] {
  if (!hasQuorum(found)) return tooFewAnswer(found)
  return found.truncated ? 'more leases than are looked at' : undefined
}
