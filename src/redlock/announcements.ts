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

/** This many announcements are kept for those that begin to listen a moment later. */
const RECENT = 64
/** Announcements of as many releases are kept, for those that come late from slow masters. */
const ROUNDS = 8

interface Announcement {
  readonly at: number
  readonly master: Master
  /** Tells one release from another. */
  readonly round: string
  /** Who is next. */
  readonly names: readonly string[]
  readonly resource: string
}

export class Announcements {
  readonly #fleet: LockFleet
  readonly #waiters = new Set<TurnWatch>()
  /** For those that begin to listen after the attempt that made them wait. */
  readonly #recent: Announcement[] = []
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
    const stop = (): void => void this.#waiters.delete(waiter)
    const waiter = new TurnWatch({ name, resources, quorum, subscriptions, stop })
    this.#waiters.add(waiter)
    for (const each of this.#recent) if (each.at >= since) waiter.heard(each)
    return waiter
  }

  #heard(master: Master, message: string): void {
    const [round = '', named = '', ...words] = message.split(' ')
    const [names, resource] = [named.split(','), words.join(' ')]
    const announcement = { at: this.#fleet.settings.clock.now(), master, round, names, resource }
    this.#recent.push(announcement)
    if (this.#recent.length > RECENT) this.#recent.shift()
    for (const waiter of this.#waiters) waiter.heard(announcement)
  }
}

interface TurnWatchOptions {
  /** Of the waiter. */
  readonly name: string
  readonly resources: readonly string[]
  readonly quorum: number
  readonly subscriptions: readonly Subscription[]
  stop(): void
}

/** What one waiter hears. */
export class TurnWatch implements Turns {
  readonly #options: TurnWatchOptions
  /** Who is next by each master, for each release. */
  readonly #rounds = new Map<string, Map<Master, readonly string[]>>()
  #place: number | undefined
  #react: ((place: number) => void) | undefined

  constructor(options: TurnWatchOptions) {
    this.#options = options
  }

  /** A quorum of masters would be heard. */
  get live(): boolean {
    const { subscriptions, quorum } = this.#options
    return subscriptions.filter(({ active }) => active).length >= quorum
  }

  stop(): void {
    this.#options.stop()
  }

  onTurn(react: (place: number) => void): void {
    this.#react = react
    if (this.#place !== undefined) react(this.#place)
  }

  forget(): void {
    this.#react = undefined
    this.#place = undefined
  }

  heard({ master, round, names, resource }: Announcement): void {
    const { name, resources, quorum } = this.#options
    if (!resources.includes(resource)) return
    const named = this.#rounds.get(round) ?? new Map<Master, readonly string[]>()
    this.#rounds.set(round, named.set(master, names))
    const [oldest] = this.#rounds.keys()
    if (this.#rounds.size > ROUNDS && oldest !== undefined) this.#rounds.delete(oldest)
    if (named.size > quorum) return
    const place = turnOrder([...named.values()]).indexOf(name)
    const decided = named.size === quorum
    if (place < 0 || (place > 0 && !decided)) return
    if (decided) this.#place = place
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
