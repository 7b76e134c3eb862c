/**
 * A namespace of its own on real masters, a fault proxy in front of each, and everything that was
 * made on them. When a harness is closed, every client is, and no lease may be left.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { Redlock, type Lease, type RedlockOptions, silentLogger } from '../../src/index.ts'
import { keyspace, type Keyspace } from '../../src/redlock/keyspace.ts'
import type { Fleet } from '../../src/testing/index.ts'
import { until } from '../fixtures.ts'
import { startProxy, type FaultProxy } from '../support/proxy.ts'

export interface HarnessOptions {
  /** How many of the fleet's masters. Default: all. */
  readonly masters?: number
  /** The constant of the fleet; the longest lease a test may take. */
  readonly maxLeaseMs?: number
}

export interface ClientOptions extends Partial<RedlockOptions> {
  /** Past the proxies, so that their faults do not touch this client. */
  readonly direct?: boolean
}

export class Harness implements AsyncDisposable {
  readonly namespace: string = `t-${randomUUID().slice(0, 8)}`
  readonly keys: Keyspace = keyspace(this.namespace)
  /** One in front of each master, in their order. */
  readonly proxies: readonly FaultProxy[]
  /** A connection past the proxies to each master. */
  readonly masters: readonly Redis[]
  readonly #urls: readonly string[]
  readonly #maxLeaseMs: number
  readonly #clients: Redlock[] = []

  static async open(
    fleet: Fleet,
    { masters = fleet.masters.length, maxLeaseMs = 30_000 }: HarnessOptions = {},
  ): Promise<Harness> {
    const servers = fleet.masters.slice(0, masters)
    const proxies = await Promise.all(servers.map(({ port }) => startProxy(port)))
    const urls = servers.map(({ url }) => url)
    const harness = new Harness(proxies, urls, maxLeaseMs)
    await (await harness.client({ direct: true })).bootstrap({ newFleet: true })
    return harness
  }

  private constructor(proxies: readonly FaultProxy[], urls: readonly string[], maxLeaseMs: number) {
    this.proxies = proxies
    this.#urls = urls
    this.#maxLeaseMs = maxLeaseMs
    this.masters = urls.map((url) => {
      const redis = new Redis(url, { retryStrategy: () => 20 })
      redis.on('error', () => undefined) // A killed master comes back, and with it the connection.
      return redis
    })
  }

  /**
   * A client that has tried every master; those that it could not reach are the test's business.
   */
  async client({ direct = false, ...options }: ClientOptions = {}): Promise<Redlock> {
    const redlock = this.unready({ direct, ...options })
    await redlock.ready()
    return redlock
  }

  unready({ direct = false, ...options }: ClientOptions = {}): Redlock {
    const redlock = new Redlock({
      masters: direct ? this.#urls : this.proxies.map(({ url }) => url),
      namespace: this.namespace,
      maxLeaseMs: this.#maxLeaseMs,
      logger: silentLogger,
      ...options,
    })
    this.#clients.push(redlock)
    return redlock
  }

  /** Whose lease key each master has, in their order. */
  holders(resource: string): Promise<readonly (string | null)[]> {
    return Promise.all(this.masters.map((redis) => redis.get(this.keys.lease(resource))))
  }

  /**
   * The fencing counter on each master; it stays when a lease is gone, so it tells that one was
   * granted.
   */
  counters(resource: string): Promise<readonly (string | null)[]> {
    return Promise.all(this.masters.map((redis) => redis.get(this.keys.fence(resource))))
  }

  /** Somebody else's lease key on some of the masters. */
  async occupy(resource: string, indexes: readonly number[], ttlMs: number): Promise<void> {
    const set = (index: number): Promise<unknown> =>
      item(this.masters, index).set(this.keys.lease(resource), 'foreign@elsewhere', 'PX', ttlMs)
    await Promise.all(indexes.map(set))
  }

  async forget(resource: string, indexes: readonly number[]): Promise<void> {
    await Promise.all(
      indexes.map((index) => item(this.masters, index).del(this.keys.lease(resource))),
    )
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await Promise.all(this.proxies.map((proxy) => proxy.pass()))
      await Promise.all(this.#clients.map((redlock) => redlock.close()))
      await until('no key is left behind', async () => (await this.#leftover()).length === 0)
      // Before they are reset: Node leaks a socket that is reset in the middle of its orderly end.
      await until('all are closed', () => this.proxies.every(({ counters }) => counters.open === 0))
    } finally {
      for (const redis of this.masters) redis.disconnect()
      await Promise.all(this.proxies.map((proxy) => proxy.close()))
    }
  }

  /** Leases, and keys that would stay for ever. */
  async #leftover(): Promise<readonly string[]> {
    const found = await Promise.all(
      this.masters.map(async (redis) => {
        const keys = (await redis.keys(`${this.namespace}:*`)).filter(
          (key) => key !== this.keys.master,
        )
        const ttls = await Promise.all(keys.map((key) => redis.pttl(key)))
        return keys.filter(
          (key, index) => ttls[index] === -1 || key.startsWith(`${this.namespace}:lease:`),
        )
      }),
    )
    return found.flat()
  }
}

export function item<T>(list: readonly T[], index: number): T {
  const value = list[index]
  if (value === undefined) throw new Error(`There is no item ${index}`)
  return value
}

/** Resolves with `true` when the signal aborts. */
function aborted(signal: AbortSignal): Promise<true> {
  return new Promise((resolve) => {
    const onAbort = (): void => {
      resolve(true)
    }
    if (signal.aborted) onAbort()
    else signal.addEventListener('abort', onAbort, { once: true })
  })
}

/**
 * Whether the signal aborted within `graceMs` of the end of trust. The end may still move by an
 * extension that was under way. Two timers tell: of two that are due on a machine that stood still,
 * the earlier one comes first.
 */
export async function abortsInTime(lease: Lease, graceMs: number): Promise<boolean> {
  for (;;) {
    const { trustedUntil } = lease
    const limitMs = Math.max(0, trustedUntil + graceMs - performance.now())
    const known = new AbortController()
    const isLate = delay(limitMs, false, known).catch(() => false)
    const isAborted = await Promise.race([aborted(lease.signal), isLate])
    known.abort()
    if (isAborted) return true
    if (lease.trustedUntil === trustedUntil) return false
  }
}
