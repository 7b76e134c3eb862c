/**
 * The servers and processes that episodes share. Each episode has a queue and resources of its own.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { Redis } from 'ioredis'
import type { LockCluster } from '../../scripts/lock-servers/lock-cluster.ts'
import { LOCK_SERVERS, type Kind } from '../../scripts/lock-servers/lock-servers.ts'
import { startFleet, type Fleet } from '../../src/testing/index.ts'
import { Frail } from './frail.ts'
import { machineMs } from './seen.ts'
import { MASTERS, Servers } from './servers.ts'

const LAG_POLL_MS = 5
const PING_POLL_MS = 50

/** On a busy machine servers may not answer in time. */
const OPENINGS = 4

async function opened(tries: number, kind?: Kind): Promise<Frail> {
  try {
    return await Frail.open(kind)
  } catch (error) {
    if (tries === 1) throw error
    return opened(tries - 1, kind)
  }
}

export class World implements AsyncDisposable {
  readonly #fleet: Fleet
  readonly #shared: Servers
  readonly #kind: Kind | undefined
  readonly #locks: LockCluster | undefined
  /** For one episode at a time; opened for the first one. */
  #frail: Promise<Frail> | undefined
  readonly #lags: { readonly at: number; readonly ms: number }[] = []
  readonly #timer: NodeJS.Timeout
  readonly #closing = new AbortController()
  #frailUsers: Promise<unknown> = Promise.resolve()
  #episodes = 0

  /** @param kind of the lock service, in place of Redis masters. */
  static async open(kind?: Kind): Promise<World> {
    const fleet = await startFleet({ masters: MASTERS })
    const locks = kind && (await LOCK_SERVERS[kind].start(1))
    const shared = await Servers.open(fleet.masters, fleet.queue, undefined, locks?.address)
    return new World(fleet, shared, kind, locks)
  }

  private constructor(
    fleet: Fleet,
    shared: Servers,
    kind: Kind | undefined,
    locks: LockCluster | undefined,
  ) {
    this.#kind = kind
    this.#fleet = fleet
    this.#locks = locks
    this.#shared = shared
    let last = machineMs()
    this.#timer = setInterval(() => {
      const now = machineMs()
      const ms = now - last - LAG_POLL_MS
      last = now
      if (ms > 10) this.#lags.push({ at: now, ms })
      if (this.#lags.length > 20_000) this.#lags.splice(0, 10_000)
    }, LAG_POLL_MS)
    for (const { url } of [...fleet.masters, fleet.queue]) void this.#watch(new Redis(url))
  }

  /** How long a server takes to answer. */
  async #watch(redis: Redis): Promise<void> {
    while (!this.#closing.signal.aborted) {
      const askedAt = machineMs()
      await redis.ping().catch(() => undefined)
      const at = machineMs()
      this.#lags.push({ at, ms: at - askedAt })
      await delay(PING_POLL_MS)
    }
    redis.disconnect()
  }

  /** No two episodes have the same. */
  nextName(): string {
    this.#episodes += 1
    return `e${process.pid}-${this.#episodes}`
  }

  /** How long this process, or a server, stood still since a time, at worst. */
  lagSince(at: number): number {
    return Math.max(0, ...this.#lags.filter((each) => each.at >= at).map(({ ms }) => ms))
  }

  /** Runs `use` on the servers of all, or alone on some that it may harm. */
  async with<Result>(
    harms: boolean,
    use: (servers: Servers, frail: Frail | undefined) => Promise<Result>,
  ): Promise<Result> {
    if (!harms) return use(this.#shared, undefined)
    const before = this.#frailUsers
    let done = (): void => undefined
    this.#frailUsers = new Promise<void>((resolve) => {
      done = resolve
    })
    await before
    try {
      this.#frail ??= opened(OPENINGS, this.#kind)
      const frail = await this.#frail
      await frail.right()
      return await use(frail.servers, frail)
    } finally {
      done()
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer)
    this.#closing.abort()
    await delay(2 * PING_POLL_MS)
    await this.#shared[Symbol.asyncDispose]()
    await (await this.#frail)?.[Symbol.asyncDispose]()
    await this.#fleet.close()
    await this.#locks?.close()
  }
}
