/**
 * A namespace of its own on real masters behind proxies, and the clients that were made on them.
 * When a harness is closed, every client is, and no lease may be left.
 */
import { randomUUID } from 'node:crypto'
import { Redlock, type RedlockOptions, silentLogger } from '../../src/index.ts'
import { keyspace, type Keyspace } from '../../src/redlock/keyspace.ts'
import type { Fleet } from '../../src/testing/index.ts'
import { until } from '../fixtures.ts'
import { ProxiedMasters } from '../support/proxied-masters.ts'

export interface ClientOptions extends Partial<RedlockOptions> {
  /** Past the proxies, so that their faults do not touch this client. */
  readonly direct?: boolean
}

export class Harness implements AsyncDisposable {
  readonly namespace: string = `t-${randomUUID().slice(0, 8)}`
  readonly keys: Keyspace = keyspace(this.namespace)
  readonly masters: ProxiedMasters
  readonly #maxLeaseMs: number
  readonly #clients: Redlock[] = []

  /** @param maxLeaseMs the constant of the fleet; the longest lease a test may take. */
  static async open({ masters }: Fleet, maxLeaseMs: number = 30_000): Promise<Harness> {
    const harness = new Harness(await ProxiedMasters.start(masters), maxLeaseMs)
    await (await harness.client({ direct: true })).bootstrap({ newFleet: true })
    return harness
  }

  private constructor(masters: ProxiedMasters, maxLeaseMs: number) {
    this.masters = masters
    this.#maxLeaseMs = maxLeaseMs
  }

  /**
   * A client that has tried every master; those that it could not reach are the test's business.
   */
  async client(options: ClientOptions = {}): Promise<Redlock> {
    const redlock = this.unready(options)
    await redlock.ready()
    return redlock
  }

  unready({ direct = false, ...options }: ClientOptions = {}): Redlock {
    const { servers, urls } = this.masters
    const redlock = new Redlock({
      masters: direct ? servers.map(({ url }) => url) : urls,
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
    const key = this.keys.lease(resource)
    return Promise.all(this.masters.connections.map((redis) => redis.get(key)))
  }

  /**
   * The fencing counter on each master; it stays when a lease is gone, so it tells that one was
   * granted.
   */
  counters(resource: string): Promise<readonly (string | null)[]> {
    const key = this.keys.fence(resource)
    return Promise.all(this.masters.connections.map((redis) => redis.get(key)))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.masters.pass()
      await Promise.all(this.#clients.map((redlock) => redlock.close()))
      await until('no key is left behind', async () => (await this.#leftover()).length === 0)
    } finally {
      await this.masters[Symbol.asyncDispose]()
    }
  }

  /** Leases, and keys that would stay for ever. */
  async #leftover(): Promise<readonly string[]> {
    const found = await Promise.all(
      this.masters.connections.map(async (redis) => {
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
