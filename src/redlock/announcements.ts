/**
 * Tells waiters whose turn it is when a resource is released. Masters announce a release only where
 * waiters are, and name the next ones. A turn is decided when a quorum of masters has announced it.
 * All waiters decide it alike, or nearly so: they go one after the other and do not split the
 * votes. The waiter that is first by all that was heard so far does not wait for the quorum: its
 * request reaches the other masters after the release. Where it does not, it goes again when the
 * quorum is there. Advisory: an announcement that is lost, or a lease that ends by itself, costs a
 * waiter one delay and nothing else.
 */
import type { LockFleet } from './fleet/fleet.ts'
import type { Turns } from '../lock/waiting.ts'
import type { Master, Subscription } from './wire/master.ts'

/** At least this many releases are kept: slow masters announce some of them late. */
const RELEASES = 512

/** One release, as the masters announce it. */
interface Release {
  /** Who is next by each master; of a quorum of them at most. */
  readonly orders: Map<Master, readonly string[]>
  isDecided: boolean
}

/** Who is next by a quorum, and since when that is known. */
interface Decision {
  readonly resource: string
  readonly order: readonly string[]
  readonly at: number
}

export class Announcements {
  readonly #fleet: LockFleet
  readonly #waiters = new Map<string, TurnWatch>()
  /** Taking out the oldest one by one leaves holes, which every look for the oldest passes. */
  #releases = new Map<string, Release>()
  /** Those before them. */
  #older = new Map<string, Release>()
  /** The oldest first. */
  #decisions: Decision[] = []
  #subscriptions: readonly Subscription[] | undefined

  constructor(fleet: LockFleet) {
    this.#fleet = fleet
  }

  /** Hears also what was announced after `since`, the start of the attempt that has to wait. */
  listen(name: string, resources: readonly string[], since: number): TurnWatch {
    const { masters, keys, quorum } = this.#fleet
    const subscriptions = (this.#subscriptions ??= masters.map((master) =>
      master.listen(keys.releases, (message) => {
        this.#heard(master, message)
      }),
    ))
    const isLive = (): boolean => subscriptions.filter(({ active }) => active).length >= quorum
    const waiter = new TurnWatch(resources, isLive, () => void this.#waiters.delete(name))
    this.#waiters.set(name, waiter)
    const missed = this.#decisions.slice(this.#decisions.findLastIndex(({ at }) => at < since) + 1)
    for (const { resource, order } of missed) {
      const place = order.indexOf(name)
      if (place >= 0) waiter.heard(resource, place, true)
    }
    return waiter
  }

  #heard(master: Master, message: string): void {
    const [round = '', named = '', ...words] = message.split(' ')
    const resource = words.join(' ')
    const release = this.#release(`${round} ${resource}`)
    if (release.isDecided) return
    release.orders.set(master, named.split(','))
    const order = turnOrder([...release.orders.values()])
    release.isDecided = release.orders.size === this.#fleet.quorum
    if (release.isDecided) {
      this.#decisions.push({ resource, order, at: this.#fleet.settings.clock.now() })
    }
    for (const [place, name] of order.entries()) {
      if (release.isDecided || place === 0) {
        this.#waiters.get(name)?.heard(resource, place, release.isDecided)
      }
    }
  }

  #release(id: string): Release {
    const known = this.#releases.get(id) ?? this.#older.get(id)
    if (known !== undefined) return known
    if (this.#releases.size >= RELEASES) {
      this.#older = this.#releases
      this.#releases = new Map()
      this.#decisions = this.#decisions.slice(-RELEASES)
    }
    const release: Release = { orders: new Map(), isDecided: false }
    this.#releases.set(id, release)
    return release
  }
}

/** What one waiter hears. */
export class TurnWatch implements Turns {
  readonly #resources: readonly string[]
  readonly isLive: () => boolean
  readonly stop: () => void
  #place: number | undefined
  #react: ((place: number) => void) | undefined

  constructor(resources: readonly string[], isLive: () => boolean, stop: () => void) {
    this.#resources = resources
    this.isLive = isLive
    this.stop = stop
  }

  onTurn(react: (place: number) => void): void {
    this.#react = react
    if (this.#place !== undefined) react(this.#place)
  }

  forget(): void {
    this.#react = undefined
    this.#place = undefined
  }

  heard(resource: string, place: number, isDecided: boolean): void {
    if (!this.#resources.includes(resource)) return
    if (isDecided) this.#place = place
    this.#react?.(place)
  }
}

/** The masters' orders in one: earlier in more of them comes first. Pure. */
export function turnOrder(orders: readonly (readonly string[])[]): readonly string[] {
  const points = new Map<string, number>()
  for (const names of orders) {
    for (const [place, name] of names.entries()) {
      points.set(name, (points.get(name) ?? 0) + 1 / (place + 1))
    }
  }
  return [...points]
    .sort(([a, ofA], [b, ofB]) => ofB - ofA || (a < b ? -1 : 1))
    .map(([name]) => name)
}
