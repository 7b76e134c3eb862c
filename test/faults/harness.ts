/**
 * One scenario: masters with a fault proxy in front of each, clients at work on them, and the
 * verdict when all is quiet again.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { Fleet } from '../../src/testing/index.ts'
import { foundFleet } from '../support/found-fleet.ts'
import { ProxiedMasters } from '../support/proxied-masters.ts'
import type { ClientProcesses } from './client-processes.ts'
import { History } from './history.ts'
import { anomaliesOf } from './judge.ts'
import { leaseAnomalies, LeaseLogs } from './lease-logs.ts'
import type { Orders } from './orders.ts'

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
}

/** How long the clients may take to get some leases, while faults are going on or after them. */
const PROGRESS_LIMIT_MS = 60_000

export class Harness implements AsyncDisposable {
  readonly masters: ProxiedMasters
  readonly history = new History()
  readonly #leaseLogs = new LeaseLogs()
  readonly namespace: string
  readonly leaseMs: number
  readonly maxLeaseMs: number
  readonly #storeUrl: string
  readonly #clients: ClientProcesses
  readonly #resources: readonly string[]
  #working = true

  /** Starts the work; resolves when the first leases have been granted. */
  static async start(
    fleet: Fleet,
    clients: ClientProcesses,
    options: HarnessOptions,
  ): Promise<Harness> {
    const masters = await ProxiedMasters.start(fleet.masters)
    const harness = new Harness(fleet.queue.url, clients, masters, options)
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
      urls: this.masters.urls,
      storeUrl: this.#storeUrl,
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
    storeUrl: string,
    clients: ClientProcesses,
    masters: ProxiedMasters,
    { seed, leaseMs = 400, maxLeaseMs = 600, resources = 2 }: HarnessOptions,
  ) {
    this.masters = masters
    this.namespace = `f${seed}-${randomUUID().slice(0, 8)}`
    this.leaseMs = leaseMs
    this.maxLeaseMs = maxLeaseMs
    this.#storeUrl = storeUrl
    this.#clients = clients
    this.#resources = Array.from({ length: resources }, (_, index) => `r${index + 1}`)
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
    await this.masters.heal()
    this.#working = false
    const { leaseMs, maxLeaseMs, namespace, history, masters } = this
    const anomalies = await anomaliesOf({
      ...{ clients: this.#clients, history, storeUrl: this.#storeUrl, namespace },
      ...{ leaseMs, maxLeaseMs, resources: this.#resources },
      ...{ masters: masters.servers.map(({ url }) => url), connections: masters.connections },
    })
    return [...anomalies, ...leaseAnomalies(await this.#leaseLogs.verdict())]
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.masters.pass()
    if (this.#working) await this.#clients.end()
    await this.masters[Symbol.asyncDispose]()
    this.#leaseLogs.remove()
  }
}
