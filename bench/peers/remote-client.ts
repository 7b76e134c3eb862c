/** A client of a library, in the library's process. */
import type { Setup } from './adapter.ts'
import type { LibraryProcess } from './libraries.ts'
import type { Calls } from './library-child.ts'

const CONNECT_LIMIT_MS = 10_000
const CALL_LIMIT_MS = 3_000

export type Acquired =
  Calls['acquire']['answer'] | { readonly status: 'pending'; readonly limitMs: number }

type Loads = Pick<Calls, 'flow' | 'turns' | 'hold'>

export class RemoteClient {
  readonly process: LibraryProcess
  readonly #client: number
  readonly #keyPrefix: string

  static async connect(process: LibraryProcess, setup: Setup): Promise<RemoteClient> {
    const { client, keyPrefix } = await process.ask('connect', setup, CONNECT_LIMIT_MS)
    return new RemoteClient(process, client, keyPrefix)
  }

  private constructor(process: LibraryProcess, client: number, keyPrefix: string) {
    this.process = process
    this.#client = client
    this.#keyPrefix = keyPrefix
  }

  key(resource: string): string {
    return `${this.#keyPrefix}${resource}`
  }

  load<Name extends keyof Loads>(
    name: Name,
    argument: Omit<Loads[Name]['argument'], 'client'>,
  ): Promise<Loads[Name]['answer']> {
    const whole = { ...argument, client: this.#client } as Loads[Name]['argument']
    return this.process.ask(name, whole)
  }

  async acquire(resource: string, ttlMs: number, limitMs: number): Promise<Acquired> {
    const lock = { client: this.#client, resource, ttlMs }
    const outcome = await this.process.call('acquire', lock, limitMs)
    if (outcome.status === 'answered') return outcome.answer
    if (outcome.status === 'pending') return outcome
    throw new Error(outcome.message)
  }

  startUsing(resource: string, ttlMs: number, nested = false): Promise<number> {
    return this.soon('startUsing', { client: this.#client, resource, ttlMs, nested })
  }

  /** @throws Error when there is no answer within {@link CALL_LIMIT_MS}. */
  soon<Name extends keyof Calls>(
    name: Name,
    argument: Calls[Name]['argument'],
  ): Promise<Calls[Name]['answer']> {
    return this.process.ask(name, argument, CALL_LIMIT_MS)
  }

  async release(held: number): Promise<void> {
    await this.process.call('release', held, CALL_LIMIT_MS)
  }

  async close(): Promise<void> {
    await this.process.call('close', { client: this.#client }, CALL_LIMIT_MS)
  }
}
