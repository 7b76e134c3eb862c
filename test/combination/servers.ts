/** Lock masters and a queue's Redis, with clients and processes that use them. */
import { Redis } from 'ioredis'
import pRetry from 'p-retry'
import { TICK_MS } from '../../scripts/lock-servers/zookeeper-server.ts'
import { Redlock, silentLogger } from '../../src/index.ts'
import type { LockClient } from '../../src/services/lock-client.ts'
import type { TestServer } from '../../src/testing/index.ts'
import { openLocks } from '../../src/tools/operator/open-locks.ts'
import { foundFleet } from '../support/found-fleet.ts'
import { forkProgram } from '../support/programs.ts'
import { RemoteProcess } from '../support/remote-process.ts'
import type { Child } from './hands.ts'

export const LEASE_MS = 1_000
const MAX_LEASE_MS = 2_000
export const MASTERS = 3
const CLIENTS = 2
const MANY = 10_000

export interface LocksSettings {
  readonly masters: readonly string[]
  readonly namespace: string
  /** Of another lock service, which grants the leases instead of the masters. */
  readonly address?: string | undefined
}

export type Locks = Redlock | LockClient

export async function readyLocks({ masters, namespace, address }: LocksSettings): Promise<Locks> {
  const shared = { namespace, leaseMs: LEASE_MS, maxLeaseMs: MAX_LEASE_MS, logger: silentLogger }
  const locks =
    address === undefined
      ? new Redlock({ ...shared, masters, masterTimeoutMs: LEASE_MS / 4 })
      : await openLocks(address, { ...shared, tickMs: TICK_MS })
  await locks.ready()
  return locks
}

export interface QueueAddress {
  readonly host: string
  readonly port: number
}

export class Servers implements AsyncDisposable {
  readonly queue: QueueAddress
  readonly locks: readonly Locks[]
  readonly #settings: LocksSettings
  /** Asked without what stands between. */
  readonly masters: readonly Redis[]
  readonly #children: Child[] = []

  /** @param urls of the masters for clients, where they are not the masters' own. */
  static async open(
    masters: readonly TestServer[],
    queue: QueueAddress,
    urls: readonly string[] = masters.map(({ url }) => url),
    address?: string,
  ): Promise<Servers> {
    const settings = { masters: urls, namespace: 'combination' }
    await foundFleet({ ...settings, leaseMs: LEASE_MS, maxLeaseMs: MAX_LEASE_MS })
    const all = { ...settings, address }
    const locks = await Promise.all(Array.from({ length: CLIENTS }, () => readyLocks(all)))
    return new Servers(masters, queue, locks, all)
  }

  private constructor(
    masters: readonly TestServer[],
    queue: QueueAddress,
    locks: readonly Locks[],
    settings: LocksSettings,
  ) {
    this.queue = queue
    this.locks = locks
    this.#settings = settings
    this.masters = masters.map(({ url }) => {
      const redis = new Redis(url, { maxRetriesPerRequest: null })
      redis.on('error', () => undefined)
      return redis
    })
  }

  /** A process for workers, ready. */
  async takeChild(): Promise<Child> {
    const spare = this.#children.pop()
    if (spare?.isStuck === false) return spare
    const child = forkProgram(new URL('worker-child.ts', import.meta.url), [
      JSON.stringify(this.#settings),
    ])
    return RemoteProcess.start('a worker', child)
  }

  /** Those of an episode, by its prefix: keys on masters, or what the lock service lists. */
  async leases(prefix: string): Promise<readonly string[]> {
    const [client] = this.locks
    if (client !== undefined && 'leases' in client) {
      const all = await pRetry(() => client.leases(MANY), { minTimeout: 100 })
      return all.flatMap(({ resource }) => (resource.startsWith(prefix) ? [resource] : []))
    }
    const pattern = `${this.#settings.namespace}:lease:${prefix}*`
    const found = await Promise.all(this.masters.map((master) => master.keys(pattern)))
    return [...new Set(found.flat())]
  }

  returnChild(child: Child): void {
    if (!child.isStuck) this.#children.push(child)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#children.map((child) => child.kill()))
    for (const redis of this.masters) redis.disconnect()
    await Promise.all(this.locks.map((each) => each.close()))
  }
}
