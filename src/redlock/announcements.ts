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

/** This many releases are kept: slow masters announce some of them late. */
const RELEASES = 1_024

/** One release, as the masters announce it. */
interface Release {
  readonly resource: string
  /** Who is next by each master; of a quorum of them at most. */
  readonly orders: Map<Master, readonly string[]>
  /** Who is next by a quorum, and since when that is known. */
  turns: { readonly order: readonly string[]; readonly at: number } | undefined
}

export class Announcements {
  readonly #fleet: LockFleet
  readonly #waiters = new Map<string, TurnWatch>()
  /** The oldest first. */
  readonly #releases = new Map<string, Release>()
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
    for (const { resource, turns } of this.#releases.values()) {
      const place = turns !== undefined && turns.at >= since ? turns.order.indexOf(name) : -1
      if (place >= 0) waiter.heard(resource, place, true)
    }
    return waiter
  }

  #heard(master: Master, message: string): void {
    const [round = '', named = '', ...words] = message.split(' ')
    const resource = words.join(' ')
    const id = `${round} ${resource}`
    const release = this.#releases.get(id) ?? { resource, orders: new Map(), turns: undefined }
    if (release.turns !== undefined) return
    this.#releases.set(id, release)
    const [oldest] = this.#releases.keys()
    if (this.#releases.size > RELEASES && oldest !== undefined) this.#releases.delete(oldest)
    release.orders.set(master, named.split(','))
    const order = turnOrder([...release.orders.values()])
    const isDecided = release.orders.size === this.#fleet.quorum
    if (isDecided) release.turns = { order, at: this.#fleet.settings.clock.now() }
    for (const [place, name] of order.entries()) {
      if (isDecided || place === 0) this.#waiters.get(name)?.heard(resource, place, isDecided)
    }
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
