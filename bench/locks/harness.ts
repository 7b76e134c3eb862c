/** Where it is measured: the masters, a process for each contender, and the counters of both. */
import { randomUUID } from 'node:crypto'
import { Redis } from 'ioredis'
import { startFleet, type Fleet } from '../../src/testing/index.ts'
import { ProxiedMasters } from '../../test/support/proxied-masters.ts'
import type { RemoteProcess } from '../../test/support/remote-process.ts'
import type { Setup } from '../peers/adapter.ts'
import { startLibrary } from '../peers/libraries.ts'
import type { Contender } from '../beside.ts'
import type { Effort } from '../effort.ts'
import type { MeasuredRow } from '../measured.ts'
import type { Calls, Flow, FlowResult } from './loads/calls.ts'

const CHILD = new URL('contender-child.ts', import.meta.url)

/** The lease of every load: the default of most of these libraries. */
export const LEASE_MS = 10_000

/**
 * With a shorter limit it gives up on masters that are only busy, and the leases it then leaves
 * behind stand in its own way for their whole length. This is its default.
 */
const UNIVERSAL: Partial<Setup> = { masterTimeoutMs: 5_000 }

export type Row = MeasuredRow<Harness>

type ContenderProcess = RemoteProcess<Calls>

export class Harness implements AsyncDisposable {
  readonly fleet: Fleet
  readonly effort: Effort
  readonly #masters: readonly Redis[]
  readonly #processes = new Map<string, Promise<ContenderProcess>>()
  readonly #say: (line: string) => void

  static async open(effort: Effort, say: (line: string) => void): Promise<Harness> {
    return new Harness(await startFleet({ masters: 5, queue: false }), effort, say)
  }

  private constructor(fleet: Fleet, effort: Effort, say: (line: string) => void) {
    this.fleet = fleet
    this.effort = effort
    this.#masters = fleet.urls.map((url) => new Redis(url, { maxRetriesPerRequest: null }))
    this.#say = say
  }

  /** The process of a contender, always the same one. */
  process({ name }: Contender): Promise<ContenderProcess> {
    const running = this.#processes.get(name) ?? startLibrary<Calls>(CHILD, name)
    this.#processes.set(name, running)
    return running
  }

  /** Under a new namespace. */
  #setup({ name }: Contender, options: Partial<Setup>): Setup {
    const namespace = `bench-${randomUUID().slice(0, 8)}`
    const common = { urls: this.fleet.urls, namespace, waitMs: LEASE_MS, fresh: true }
    return { ...common, ...(name === 'redlock-universal' && UNIVERSAL), ...options }
  }

  /** A client of each contender, in its process. */
  async open(
    contenders: readonly Contender[],
    options: (contender: Contender) => Partial<Setup> = () => ({}),
  ): Promise<Clients> {
    const clients = new Map<Contender, RemoteClient>()
    for (const contender of contenders) {
      const process = await this.process(contender)
      const setup = this.#setup(contender, options(contender))
      clients.set(contender, { process, client: await process.ask('open', setup) })
    }
    return new Clients(clients)
  }

  /** Close them after the clients that go through them. */
  proxies(): Promise<ProxiedMasters> {
    return ProxiedMasters.start(this.fleet.masters)
  }

  /** What a load came to, and what it cost all masters together. */
  async metered<Result>(load: () => Promise<Result>): Promise<Result & MasterCost> {
    const before = await this.#masterCpuMs()
    const result = await load()
    return { ...result, mastersCpuMs: (await this.#masterCpuMs()) - before }
  }

  /** Of all masters together. */
  async usedMemory(): Promise<number> {
    return this.#sum('memory', /used_memory:(\d+)/)
  }

  /** On every master; what `EVALSHA` calls it. */
  async loadScript(lua: string): Promise<string> {
    const hashes = await Promise.all(this.#masters.map((redis) => redis.script('LOAD', lua)))
    return String(hashes[0])
  }

  async serverVersion(): Promise<string> {
    const info = await this.#masters[0]?.info('server')
    return /redis_version:(\S+)/.exec(info ?? '')?.[1] ?? 'unknown'
  }

  say(line: string): void {
    this.#say(line)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const processes = await Promise.allSettled(this.#processes.values())
    const started = processes.flatMap((process) =>
      process.status === 'fulfilled' ? [process.value] : [],
    )
    await Promise.all(started.map((process) => process[Symbol.asyncDispose]()))
    for (const redis of this.#masters) redis.disconnect()
    await this.fleet.close()
  }

  async #masterCpuMs(): Promise<number> {
    const user = await this.#sum('cpu', /used_cpu_user:([\d.]+)/)
    return 1_000 * (user + (await this.#sum('cpu', /used_cpu_sys:([\d.]+)/)))
  }

  async #sum(section: string, number: RegExp): Promise<number> {
    const infos = await Promise.all(this.#masters.map((redis) => redis.info(section)))
    return infos.reduce((sum, info) => sum + Number(number.exec(info)?.[1] ?? NaN), 0)
  }
}

interface RemoteClient {
  readonly process: ContenderProcess
  /** What the process calls it. */
  readonly client: number
}

export class Clients implements AsyncDisposable {
  readonly #clients: ReadonlyMap<Contender, RemoteClient>

  constructor(clients: ReadonlyMap<Contender, RemoteClient>) {
    this.#clients = clients
  }

  of(contender: Contender): RemoteClient {
    const client = this.#clients.get(contender)
    if (client === undefined) throw new Error(`${contender.name} has no client`)
    return client
  }

  /** Acquires and releases free resources. */
  flow(contender: Contender, flow: Omit<Flow, 'client' | 'ttlMs'>): Promise<FlowResult> {
    const { process, client } = this.of(contender)
    return process.ask('flow', { ...flow, client, ttlMs: LEASE_MS })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { process, client } of this.#clients.values()) await process.ask('close', client)
  }
}

export interface MasterCost {
  readonly mastersCpuMs: number
}
