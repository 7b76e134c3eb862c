/**
 * Wakes waiting `acquire` calls when a resource is released. Masters announce a release only where somebody waits;
 * a waiter wakes when a quorum of them has announced it, since before that a vote could not be won. Advisory: an
 * announcement that is lost, or a lease that ends by itself, costs a waiter one retry delay and nothing else.
 */
import type { Master } from '../redis/master.ts'

export interface Listening {
  /** Resolves when a quorum of masters has announced the release of one of the resources. */
  readonly released: Promise<void>
  stop(): void
}

interface Waiter {
  readonly resources: ReadonlySet<string>
  readonly heardFrom: Set<Master>
  wake(): void
}

export class Announcements {
  readonly #masters: readonly Master[]
  readonly #channel: string
  readonly #quorum: number
  readonly #waiters = new Set<Waiter>()
  #subscribed = false

  constructor(masters: readonly Master[], channel: string, quorum: number) {
    this.#masters = masters
    this.#channel = channel
    this.#quorum = quorum
  }

  /** Begin before the attempt whose failure is to be waited out, so that no release slips in between. */
  listen(resources: readonly string[]): Listening {
    this.#subscribe()
    let wake: () => void = () => undefined
    const released = new Promise<void>((resolve) => {
      wake = resolve
    })
    const waiter: Waiter = { resources: new Set(resources), heardFrom: new Set(), wake }
    this.#waiters.add(waiter)
    return { released, stop: () => this.#waiters.delete(waiter) }
  }

  #subscribe(): void {
    if (this.#subscribed) return
    this.#subscribed = true
    for (const master of this.#masters) {
      master.listen(this.#channel, (resource) => {
        this.#heard(master, resource)
      })
    }
  }

  #heard(master: Master, resource: string): void {
    for (const waiter of this.#waiters) {
      if (!waiter.resources.has(resource)) continue
      waiter.heardFrom.add(master)
      if (waiter.heardFrom.size >= this.#quorum) waiter.wake()
    }
  }
}
