/**
 * One scenario: masters with a fault proxy in front of each, clients at work on them, and the
 * verdict of every checker when all is quiet again.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { Redlock, silentLogger } from '../../src/index.ts'
import type { Fleet, TestServer } from '../../src/testing/index.ts'
import { foundFleet } from '../support/found-fleet.ts'
import { startProxy, type FaultProxy } from '../support/proxy.ts'
import { storeDisorder } from './checkers/fenced-store.ts'
import { immortalKeys } from './checkers/immortal-keys.ts'
import { wedgedResources } from './checkers/liveness.ts'
import { lostUpdates } from './checkers/lost-updates.ts'
import type { ClientProcesses } from './client-processes.ts'
import { History } from './history.ts'
import { leaseAnomalies, LeaseLogs } from './lease-logs.ts'
import type { Orders } from './orders.ts'
import { FencedStore } from './store.ts'

export interface HarnessOptions {
  readonly seed: number
  readonly leaseMs?: number
  readonly maxLeaseMs?: number
  /** @defaultValue a quarter of the lease: on a busy machine a healthy master answers late */
  readonly masterTimeoutMs?: number
  readonly resources?: number
  readonly loops?: number
  /** @defaultValue a twentieth of the lease */
  readonly holdMs?: number
  readonly pauses?: Orders['pauses']
  readonly stubborn?: boolean
  /**
   * Whether two holders at a time count as an anomaly. Not promised when a master's clock is made
   * to step.
   *
   * @defaultValue `true`
   */
  readonly exclusion?: boolean
}

/** How long the clients may take to get some leases, while faults are going on or after them. */
const PROGRESS_LIMIT_MS = 60_000
const SETTLE_LIMIT_MS = 1_000

export class Harness implements AsyncDisposable {
  readonly servers: readonly TestServer[]
  readonly proxies: readonly FaultProxy[]
  /** A connection past the proxies to each master. */
  readonly masters: readonly Redis[]
  readonly history = new History()
  readonly #leaseLogs = new LeaseLogs()
  readonly namespace: string
  readonly leaseMs: number
  readonly maxLeaseMs: number
  readonly #clients: ClientProcesses
  readonly #resources: readonly string[]
  readonly #store: FencedStore
  readonly #exclusion: boolean
  #working = true

  /** Starts the work; resolves when the first leases have been granted. */
  static async start(
    fleet: Fleet,
    clients: ClientProcesses,
    options: HarnessOptions,
  ): Promise<Harness> {
    const proxies = await Promise.all(fleet.masters.map(({ port }) => startProxy(port)))
    const harness = new Harness(fleet, clients, proxies, options)
    try {
      await harness.#begin(fleet, options)
    } catch (error) {
      await harness[Symbol.asyncDispose]()
      throw error
    }
    return harness
  }

  async #begin(fleet: Fleet, options: HarnessOptions): Promise<void> {
    const { leaseMs, maxLeaseMs, namespace } = this
    await foundFleet({ masters: fleet.urls, namespace, leaseMs, maxLeaseMs })
    const { masterTimeoutMs = Math.ceil(leaseMs / 4), loops = 2 } = options
    const { holdMs = leaseMs / 20, pauses, stubborn } = options
    const shared = {
      urls: this.proxies.map(({ url }) => url),
      storeUrl: fleet.queue.url,
      leaseLogs: this.#leaseLogs.directory,
      namespace,
      resources: this.#resources,
      leaseMs,
      maxLeaseMs,
      masterTimeoutMs,
      loops,
      holdMs,
      ...(pauses !== undefined && { pauses }),
      ...(stubborn !== undefined && { stubborn }),
    }
    await this.#clients.begin(shared, options.seed, this.history)
    await this.progress(5)
  }

  private constructor(
    fleet: Fleet,
    clients: ClientProcesses,
    proxies: readonly FaultProxy[],
    { seed, leaseMs = 400, maxLeaseMs = 600, resources = 2, exclusion = true }: HarnessOptions,
  ) {
    this.servers = fleet.masters
    this.proxies = proxies
    this.masters = fleet.masters.map(({ url }) => {
      const redis = new Redis(url, { retryStrategy: () => 20 })
      redis.on('error', () => undefined) // A killed master comes back, and with it the connection.
      return redis
    })
    this.namespace = `f${seed}-${randomUUID().slice(0, 8)}`
    this.leaseMs = leaseMs
    this.maxLeaseMs = maxLeaseMs
    this.#clients = clients
    this.#resources = Array.from({ length: resources }, (_, index) => `r${index + 1}`)
    this.#store = new FencedStore(fleet.queue.url, this.namespace)
    this.#exclusion = exclusion
  }

  get resources(): readonly string[] {
    return this.#resources
  }

  /** A client of the masters behind the proxies, ready to acquire. */
  async redlock(masterTimeoutMs: number): Promise<Redlock> {
    const redlock = new Redlock({
      masters: this.proxies.map(({ url }) => url),
      namespace: this.namespace,
      leaseMs: this.leaseMs,
      maxLeaseMs: this.maxLeaseMs,
      masterTimeoutMs,
      logger: silentLogger,
    })
    await redlock.ready()
    return redlock
  }

  server(index: number): TestServer {
    return item(this.servers, index)
  }

  proxy(index: number): FaultProxy {
    return item(this.proxies, index)
  }

  master(index: number): Redis {
    return item(this.masters, index)
  }

  /** How many leases were granted so far. */
  get grants(): number {
    return this.history.leases.size
  }

  /** Waits until so many more leases have been granted. */
  async progress(leases: number, limitMs: number = PROGRESS_LIMIT_MS): Promise<void> {
    const goal = this.grants + leases
    const limit = performance.now() + limitMs
    while (this.grants < goal) {
      if (performance.now() > limit) {
        const refusals = JSON.stringify([...this.history.refusals])
        throw new Error(
          `${goal - this.grants} of ${leases} leases missing after ${limitMs} ms ${refusals} ${this.history.problems.join('\n')}`,
        )
      }
      await delay(5)
    }
  }

  /**
   * Ends the work, with all faults over, and judges. Returns every anomaly in words; none is what a
   * scenario wants.
   */
  async finish(): Promise<readonly string[]> {
    await Promise.all(this.proxies.map((proxy) => proxy.pass()))
    for (const server of this.servers) if (!server.running) await server.restart()
    const { leaseMs, maxLeaseMs, namespace } = this
    const unended = await this.#endWork()
    const wedged = await wedgedResources({
      masters: this.servers.map(({ url }) => url),
      namespace,
      leaseMs,
      maxLeaseMs,
      resources: this.#resources,
      limitMs: 2 * maxLeaseMs + 3_000,
    })
    return [
      ...unended,
      ...wedged,
      ...this.history.problems,
      ...this.history.unsettled.map((what) => `a promise of ${what} never settled`),
      ...(await this.#leaseAnomalies()),
      ...(await this.#storeAnomalies()),
      ...(await immortalKeys(this.masters, namespace)),
    ]
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.proxies.map((proxy) => proxy.pass()))
    await this.#endWork()
    this.#store.close()
    for (const redis of this.masters) redis.disconnect()
    // Before they are reset: Node leaks a socket that is reset in the middle of its orderly end.
    const limit = performance.now() + SETTLE_LIMIT_MS
    while (this.proxies.some(({ counters }) => counters.open > 0) && performance.now() < limit) {
      await delay(5)
    }
    await Promise.all(this.proxies.map((proxy) => proxy.close()))
    this.#leaseLogs.remove()
  }

  async #endWork(): Promise<readonly string[]> {
    if (!this.#working) return []
    this.#working = false
    return this.#clients.end()
  }

  async #leaseAnomalies(): Promise<readonly string[]> {
    const found = leaseAnomalies(await this.#leaseLogs.verdict())
    return found.filter((anomaly) => this.#exclusion || !anomaly.startsWith('overlap'))
  }

  async #storeAnomalies(): Promise<readonly string[]> {
    const { writes } = this.history
    const found = await Promise.all(
      this.#resources.map(async (resource) => {
        const log = await this.#store.log(resource)
        return [
          ...storeDisorder(resource, log, this.#exclusion ? writes : []),
          ...(this.#exclusion ? lostUpdates(resource, log, writes) : []),
        ]
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
