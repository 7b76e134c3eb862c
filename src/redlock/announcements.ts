/**
 * Tells waiters whose turn it is when a resource is released. Masters announce a release only where
 * waiters are, and name the next ones. A turn is decided when a quorum of masters has announced it.
 * All waiters decide it alike, or nearly so: they go one after the other and do not split the
 * votes. The waiter that is first by all that was heard so far does not wait for the quorum: its
 * request reaches the other masters after the release. Where it does not, it goes again when the
 * quorum is there. A waiter of the client that releases does not even wait for the masters, if the
 * release before told that it is next: its request leaves behind the release. Advisory: an
 * announcement that is lost, or a lease that ends by itself, costs a waiter one delay and nothing
 * else.
 */
import type { LockFleet } from './fleet/fleet.ts'
import type { Turns } from '../lock/waiting.ts'
import type { Master, Subscription } from './wire/master.ts'

/** This many releases are kept: slow masters announce some of them late. */
const RELEASES = 1_024

/** Since when it is known, and of which resource, who is next by a quorum. */
type Decision = readonly [at: number, resource: string, order: readonly string[]]

export class Announcements {
  readonly #fleet: LockFleet
  readonly #waiters = new Map<string, TurnWatch>()
  /** Who is next by each master, and by a quorum of them at most. */
  readonly #releases = new Map<string, Map<Master, readonly string[]>>()
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
    const missed = this.#decisions.slice(this.#decisions.findLastIndex(([at]) => at < since) + 1)
    for (const [, resource, order] of missed) {
      if (order.includes(name)) waiter.heard(resource, order.indexOf(name), true)
    }
    return waiter
  }

  /** The requests that release a lease have just been made. @param holder the waiter it was. */
  releasing(resources: readonly string[], holder: string): void {
    if (this.#waiters.size === 0) return
    for (const resource of resources) {
      const [, , order = []] = this.#decisions.findLast(([, named]) => named === resource) ?? []
      const next = order.find((name) => name !== holder)
      if (next !== undefined) this.#waiters.get(next)?.heard(resource, 0, false)
    }
  }

  /** No waiter is granted anything more: each leaves its places, and asks at once. */
  close(): void {
    for (const [name, waiter] of this.#waiters) {
      // rule: closed-client-keeps-no-place
      this.#fleet.withdraw(waiter.resources, name)
      for (const resource of waiter.resources) waiter.heard(resource, 0, false)
    }
  }

  #heard(master: Master, message: string): void {
    const { quorum, settings } = this.#fleet
    const [round = '', named = '', ...words] = message.split(' ')
    const resource = words.join(' ')
    const id = `${round} ${resource}`
    const orders = this.#releases.get(id) ?? new Map<Master, readonly string[]>()
    if (orders.size === quorum) return
    // All at once: a map keeps holes where the oldest were, and a look for the oldest passes them.
    if (this.#releases.size >= RELEASES) {
      this.#releases.clear()
      this.#decisions = this.#decisions.slice(-RELEASES)
    }
    this.#releases.set(id, orders.set(master, named.split(',')))
    const order = turnOrder([...orders.values()])
    const isDecided = orders.size === quorum
    if (isDecided) this.#decisions.push([settings.clock.now(), resource, order])
    for (const [place, name] of (isDecided ? order : order.slice(0, 1)).entries()) {
      this.#waiters.get(name)?.heard(resource, place, isDecided)
    }
  }
}

/** What one waiter hears. */
export class TurnWatch implements Turns {
  readonly resources: readonly string[]
  readonly isLive: () => boolean
  readonly stop: () => void
  #place: number | undefined
  #react: ((place: number) => void) | undefined

  constructor(resources: readonly string[], isLive: () => boolean, stop: () => void) {
    this.resources = resources
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
    if (!this.resources.includes(resource)) return
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
