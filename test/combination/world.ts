/**
 * The servers and processes that episodes share. Each episode has a queue and resources of its own.
 */
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { Redlock, silentLogger } from '../../src/index.ts'
import { startFleet, startServer, type Fleet, type TestServer } from '../../src/testing/index.ts'
import { foundFleet } from '../support/found-fleet.ts'
import { forkProgram } from '../support/programs.ts'
import { machineMs } from './seen.ts'

export const LEASE_MS = 1_000
const MAX_LEASE_MS = 2_000
const MASTERS = 3
const REDLOCKS = 2
const LAG_POLL_MS = 5
const PING_POLL_MS = 50

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

export class World implements AsyncDisposable {
  readonly fleet: Fleet
  /** A queue's Redis that may be restarted: for one episode at a time. */
  readonly frail: TestServer
  readonly redlocks: readonly Redlock[]
  readonly redlockSettings: RedlockSettings
  readonly masters: readonly Redis[]
  readonly #children: ChildProcess[] = []
  readonly #lags: { readonly at: number; readonly ms: number }[] = []
  readonly #timer: NodeJS.Timeout
  readonly #closing = new AbortController()
  #frailUsers: Promise<unknown> = Promise.resolve()
  #episodes = 0

  static async open(): Promise<World> {
    const config = { appendonly: 'yes', appendfsync: 'always' }
    const [fleet, frail] = await Promise.all([
      startFleet({ masters: MASTERS }),
      startServer({ name: 'frail', config }),
    ])
    const settings = { masters: fleet.urls, namespace: 'combination' }
    await foundFleet({ ...settings, leaseMs: LEASE_MS, maxLeaseMs: MAX_LEASE_MS })
    const redlocks = Array.from({ length: REDLOCKS }, () => openRedlock(settings))
    await Promise.all(redlocks.map((redlock) => redlock.ready()))
    return new World(fleet, frail, redlocks, settings)
  }

  private constructor(
    fleet: Fleet,
    frail: TestServer,
    redlocks: readonly Redlock[],
    settings: RedlockSettings,
  ) {
    this.fleet = fleet
    this.frail = frail
    this.redlocks = redlocks
    this.redlockSettings = settings
    this.masters = fleet.urls.map((url) => new Redis(url))
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

  /** Runs `use` while no other episode uses the frail server. */
  async alone<Result>(use: () => Promise<Result>): Promise<Result> {
    const before = this.#frailUsers
    let done = (): void => undefined
    this.#frailUsers = new Promise<void>((resolve) => {
      done = resolve
    })
    await before
    try {
      return await use()
    } finally {
      if (!this.frail.running) await this.frail.restart()
      done()
    }
  }

  /** A process for workers, ready. */
  async takeChild(): Promise<ChildProcess> {
    const spare = this.#children.pop()
    if (spare?.connected === true && spare.exitCode === null) return spare
    const child = forkProgram(new URL('worker-child.ts', import.meta.url), [
      JSON.stringify(this.redlockSettings),
    ])
    await once(child, 'message')
    return child
  }

  returnChild(child: ChildProcess): void {
    if (child.connected) this.#children.push(child)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer)
    this.#closing.abort()
    await delay(2 * PING_POLL_MS)
    for (const child of this.#children) child.kill('SIGKILL')
    for (const redis of this.masters) redis.disconnect()
    await Promise.all(this.redlocks.map((redlock) => redlock.close()))
    await Promise.all([this.fleet.close(), this.frail.close()])
  }
}
