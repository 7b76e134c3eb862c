/** Lock masters and a queue's Redis, with clients and processes that use them. */
import { Redis } from 'ioredis'
import { Redlock, silentLogger } from '../../src/index.ts'
import type { TestServer } from '../../src/testing/index.ts'
import { foundFleet } from '../support/found-fleet.ts'
import { forkProgram } from '../support/programs.ts'
import { RemoteProcess } from '../support/remote-process.ts'
import type { Child } from './hands.ts'

export const LEASE_MS = 1_000
const MAX_LEASE_MS = 2_000
export const MASTERS = 3
const REDLOCKS = 2

export interface RedlockSettings {
  readonly masters: readonly string[]
  readonly namespace: string
}

export function openRedlock({ masters, namespace }: RedlockSettings): Redlock {
  return new Redlock({
    masters,
    namespace,
    leaseMs: LEASE_MS,
    maxLeaseMs: MAX_LEASE_MS,
    masterTimeoutMs: LEASE_MS / 4,
    logger: silentLogger,
  })
}

export interface QueueAddress {
  readonly host: string
  readonly port: number
}

export class Servers implements AsyncDisposable {
  readonly queue: QueueAddress
  readonly redlocks: readonly Redlock[]
  readonly redlockSettings: RedlockSettings
  /** Asked without what stands between. */
  readonly masters: readonly Redis[]
  readonly #children: Child[] = []

  /** @param urls of the masters for clients, where they are not the masters' own. */
  static async open(
    masters: readonly TestServer[],
    queue: QueueAddress,
    urls: readonly string[] = masters.map(({ url }) => url),
  ): Promise<Servers> {
    const settings = { masters: urls, namespace: 'combination' }
    await foundFleet({ ...settings, leaseMs: LEASE_MS, maxLeaseMs: MAX_LEASE_MS })
    const redlocks = Array.from({ length: REDLOCKS }, () => openRedlock(settings))
    await Promise.all(redlocks.map((redlock) => redlock.ready()))
    return new Servers(masters, queue, redlocks, settings)
  }

  private constructor(
    masters: readonly TestServer[],
    queue: QueueAddress,
    redlocks: readonly Redlock[],
    settings: RedlockSettings,
  ) {
    this.queue = queue
    this.redlocks = redlocks
    this.redlockSettings = settings
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
      JSON.stringify(this.redlockSettings),
    ])
    return RemoteProcess.start('a worker', child)
  }

  returnChild(child: Child): void {
    if (!child.isStuck) this.#children.push(child)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#children.map((child) => child.kill()))
    for (const redis of this.masters) redis.disconnect()
    await Promise.all(this.redlocks.map((redlock) => redlock.close()))
  }
}
