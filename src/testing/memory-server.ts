/** One lock server in this process, and the faults that a test wants between it and its clients. */
import { sleep, systemClock, type Clock } from '../clock.ts'
import { describeToken } from '../names.ts'
import type { Inspection } from '../lock/inspection.ts'
import { inspectionOf, type ListedLease } from '../services/service-health.ts'
import type {
  Claim,
  ClaimOutcome,
  LockDriver,
  Wish,
  Listening,
  Renewal,
} from '../services/lock-driver.ts'

/** Faults between clients and servers. */
export interface TestNetwork {
  /** Replies arrive this much later; 0 ends it. */
  delayReplies(delayMs: number): void
  /** Nothing arrives in either direction, and no connection is closed. */
  cut(): Promise<void>
  /** As before. Broken connections may have to be made anew. */
  heal(): Promise<void>
}

/** What is between clients and a {@link MemoryServer}. */
export class MemoryNetwork implements TestNetwork {
  readonly clock: Clock
  #delayMs = 0
  #heard = Promise.resolve()
  /** While it is cut. */
  #reconnect: (() => void) | undefined

  constructor(clock: Clock = systemClock) {
    this.clock = clock
  }

  delayReplies(delayMs: number): void {
    this.#delayMs = delayMs
  }

  cut(): Promise<void> {
    if (this.#reconnect === undefined) {
      this.#heard = new Promise((resolve) => {
        this.#reconnect = resolve
      })
    }
    return Promise.resolve()
  }

  heal(): Promise<void> {
    this.#delayMs = 0
    this.#reconnect?.()
    this.#reconnect = undefined
    return Promise.resolve()
  }

  async ask<Answer>(answer: () => Answer): Promise<Answer> {
    await this.#heard
    const answered = answer()
    if (this.#delayMs > 0) await sleep(this.clock, this.#delayMs)
    await this.#heard
    return answered
  }
}

export interface MemoryClaim extends Claim {
  readonly wish: Wish
}

interface HeldRow {
  readonly token: string
  readonly fencingToken: number
  until: number
}

/** The leases of one namespace. */
export class MemoryServer implements LockDriver<MemoryClaim> {
  readonly name = 'memory'
  readonly #network: MemoryNetwork
  readonly #rows = new Map<string, HeldRow>()
  readonly #waiters = new Set<{ readonly resources: readonly string[]; wake(): void }>()
  readonly #refused = new Set<string>()
  #fencingToken = 0

  constructor(network: MemoryNetwork) {
    this.#network = network
  }

  ready(): Promise<void> {
    return Promise.resolve()
  }

  acquire(wish: Wish): Promise<ClaimOutcome<MemoryClaim>> {
    return this.#network.ask(() => this.#grant(wish))
  }

  extend({ wish }: MemoryClaim): Promise<Renewal> {
    return this.#network.ask(() => {
      const rows = wish.resources.map((resource) => this.#live(resource))
      if (rows.some((row) => row?.token !== wish.token)) return 'gone'
      for (const row of rows) if (row) row.until = this.#network.clock.now() + wish.leaseMs
      return {}
    })
  }

  release({ wish }: MemoryClaim): Promise<void> {
    return this.#network.ask(() => {
      this.#free(wish)
    })
  }

  abandon(wish: Wish): Promise<void> {
    return this.#network.ask(() => {
      this.#refused.add(wish.token)
      this.#free(wish)
    })
  }

  listen(resources: readonly string[], _waiter: string, wake: () => void): Listening {
    const waiter = { resources, wake }
    this.#waiters.add(waiter)
    return { stop: () => void this.#waiters.delete(waiter) }
  }

  inspect(resource: string): Promise<Inspection> {
    return this.#network.ask(() => inspectionOf(this.name, resource, this.#listed(resource)))
  }

  close(): Promise<void> {
    return Promise.resolve()
  }

  #grant(wish: Wish): ClaimOutcome<MemoryClaim> {
    const { resources, token, leaseMs } = wish
    const [held] = resources.flatMap((resource) => this.#listed(resource) ?? [])
    if (held !== undefined) {
      const { resource, holder, freeInMs: retryAfterMs } = held
      return { status: 'taken', resource, holder, retryAfterMs }
    }
    if (this.#refused.has(token)) return { status: 'split', resource: resources.join() }
    const fencingToken = ++this.#fencingToken
    const until = this.#network.clock.now() + leaseMs
    for (const resource of resources) this.#rows.set(resource, { token, fencingToken, until })
    return { status: 'granted', claim: { fencingToken, leaseMs, wish } }
  }

  #free({ resources, token }: Wish): void {
    for (const resource of resources) {
      if (this.#rows.get(resource)?.token === token) this.#rows.delete(resource)
    }
    for (const waiter of this.#waiters) {
      if (waiter.resources.some((name) => resources.includes(name))) waiter.wake()
    }
  }

  #live(resource: string): HeldRow | undefined {
    const row = this.#rows.get(resource)
    return row !== undefined && row.until > this.#network.clock.now() ? row : undefined
  }

  #listed(resource: string): ListedLease | undefined {
    const row = this.#live(resource)
    if (row === undefined) return undefined
    const { token, fencingToken, until } = row
    const freeInMs = Math.ceil(until - this.#network.clock.now())
    return { resource, holder: describeToken(token), fencingToken, freeInMs }
  }
}
