/**
 * What a hazard has to work with: real masters, a fault proxy in front of each, and clients of the
 * library that is under test, in processes of their own. Made anew for every row on the same
 * masters; a fault that is not seen to have happened ends the run.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { Fleet } from '../../src/testing/index.ts'
import type { ClockShim } from '../../test/faults/shimmed-clock.ts'
import { ProxiedMasters } from '../../test/support/proxied-masters.ts'
import type { RemoteProcess } from '../../test/support/remote-process.ts'
import type { Setup } from '../peers/adapter.ts'
import type { AcquireResult, Calls, WorkState } from './calls.ts'

const CONNECT_LIMIT_MS = 10_000
const CALL_LIMIT_MS = 3_000
const SETTLE_LIMIT_MS = 5_000

export type LibraryProcess = RemoteProcess<Calls>

export type Acquired = AcquireResult | { readonly status: 'pending'; readonly limitMs: number }

export interface ClientOptions extends Partial<Omit<Setup, 'urls' | 'namespace'>> {
  /** Past the proxies. */
  readonly direct?: boolean
  /** Only the first so many masters. */
  readonly masters?: number
}

export class RemoteClient {
  readonly #library: LibraryProcess
  readonly #client: number
  readonly #keyPrefix: string

  constructor(library: LibraryProcess, client: number, keyPrefix: string) {
    this.#library = library
    this.#client = client
    this.#keyPrefix = keyPrefix
  }

  key(resource: string): string {
    return `${this.#keyPrefix}${resource}`
  }

  async acquire(resource: string, ttlMs: number, limitMs: number): Promise<Acquired> {
    const lock = { client: this.#client, resource, ttlMs }
    const outcome = await this.#library.call('acquire', lock, limitMs)
    if (outcome.status === 'answered') return outcome.answer
    if (outcome.status === 'pending') return outcome
    throw new Error(outcome.message)
  }

  async isHeld(held: number): Promise<boolean> {
    return (await this.#library.ask('look', held, CALL_LIMIT_MS)).isHeld
  }

  async release(held: number): Promise<void> {
    await this.#library.call('release', held, CALL_LIMIT_MS)
  }

  startUsing(
    resource: string,
    ttlMs: number,
    options: { readonly nested?: boolean } = {},
  ): Promise<number> {
    const lock = { client: this.#client, resource, ttlMs, ...options }
    return this.#library.ask('startUsing', lock, CALL_LIMIT_MS)
  }

  work(work: number): Promise<WorkState> {
    return this.#library.ask('work', work, CALL_LIMIT_MS)
  }

  async finish(work: number, error?: string): Promise<void> {
    const argument = error === undefined ? { work } : { work, error }
    await this.#library.ask('finish', argument, CALL_LIMIT_MS)
  }

  /** Stops its process, and with it the other clients there. */
  suspend(): void {
    this.#library.signal('SIGSTOP')
  }

  goOn(): void {
    this.#library.signal('SIGCONT')
  }

  async close(): Promise<void> {
    await this.#library.call('close', this.#client, CALL_LIMIT_MS)
  }
}

export class Bench implements AsyncDisposable {
  readonly library: string
  readonly masters: ProxiedMasters
  /** Of the masters; undefined where they cannot be set. */
  readonly clocks: ClockShim | undefined
  readonly #namespace = `s-${randomUUID().slice(0, 8)}`
  readonly #processes: () => Promise<readonly [LibraryProcess, LibraryProcess]>
  readonly #clients: RemoteClient[] = []

  static async open(
    library: string,
    fleet: Fleet,
    clocks: ClockShim | undefined,
    processes: () => Promise<readonly [LibraryProcess, LibraryProcess]>,
  ): Promise<Bench> {
    return new Bench(library, await ProxiedMasters.start(fleet.masters), clocks, processes)
  }

  private constructor(
    library: string,
    masters: ProxiedMasters,
    clocks: ClockShim | undefined,
    processes: () => Promise<readonly [LibraryProcess, LibraryProcess]>,
  ) {
    this.library = library
    this.masters = masters
    this.clocks = clocks
    this.#processes = processes
  }

  /** In the first process. */
  client(options: ClientOptions = {}): Promise<RemoteClient> {
    return this.#open(0, options)
  }

  /** In the second process: another machine, as far as the library can tell. */
  other(options: ClientOptions = {}): Promise<RemoteClient> {
    return this.#open(1, { direct: true, ...options })
  }

  async #open(
    which: 0 | 1,
    { direct = false, masters = this.masters.servers.length, ...options }: ClientOptions,
  ): Promise<RemoteClient> {
    const all = direct ? this.masters.servers.map(({ url }) => url) : this.masters.urls
    const setup: Setup = {
      urls: all.slice(0, masters),
      namespace: this.#namespace,
      waitMs: 0,
      fresh: this.#clients.length === 0,
      ...options,
    }
    const library = (await this.#processes())[which]
    const { client, keyPrefix } = await library.ask('connect', setup, CONNECT_LIMIT_MS)
    const remote = new RemoteClient(library, client, keyPrefix)
    this.#clients.push(remote)
    return remote
  }

  /** Somebody else's key on some of the masters. */
  async occupy(key: string, indexes: readonly number[], ttlMs: number): Promise<void> {
    await Promise.all(
      indexes.map((index) => this.masters.connection(index).set(key, 'foreign', 'PX', ttlMs)),
    )
  }

  /** Milliseconds that each master keeps the key; 0 where it has none. */
  ttlsMs(key: string): Promise<readonly number[]> {
    return Promise.all(
      this.masters.connections.map(async (redis) => Math.max(0, await redis.pttl(key))),
    )
  }

  /** @throws FaultNotSeenError when the fault that the row is about did not take place. */
  happened(fault: string, count: number): void {
    if (count <= 0) throw new FaultNotSeenError(fault)
  }

  async until(check: () => boolean | Promise<boolean>, what: string): Promise<void> {
    const limit = performance.now() + SETTLE_LIMIT_MS
    while (!(await check())) {
      if (performance.now() > limit) throw new Error(`Not within ${SETTLE_LIMIT_MS} ms: ${what}`)
      await delay(5)
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.masters.pass()
    await Promise.all(this.#clients.map((client) => client.close()))
    await this.masters[Symbol.asyncDispose]()
  }
}

export class FaultNotSeenError extends Error {
  constructor(fault: string) {
    super(`The fault did not happen: ${fault}`)
    this.name = 'FaultNotSeenError'
  }
}
