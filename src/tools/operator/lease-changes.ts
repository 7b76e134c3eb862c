/**
 * What looks at the masters, one after the other, tell of leases that were not released. Pure. A
 * lease whose time ran out, as it was seen to do in two looks without an extension, was not
 * released: its holder died, froze, or could not extend it. One that began and ended between two
 * looks was not seen.
 */
import { hasQuorum, tooFewAnswer } from './fleet-probe.ts'
import type { LiveLease, LiveLeases } from './live-leases.ts'

/** A lease that was not extended and ended by itself. */
export interface LapsedLease extends Pick<LiveLease, 'resource' | 'holder' | 'fencingToken'> {
  /** When it was found to be gone, on the wall clock. */
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
      const sights = same ? before.sights + 1 : 1
      known.set(key, {
        lease: lease.state === 'held' ? lease : (before?.lease ?? lease),
        endsAt,
        sights,
      })
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
