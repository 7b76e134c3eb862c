/** The libraries of the tables, in their order, and clients of them. */
import { fork } from 'node:child_process'
import { RemoteProcess } from '../../test/support/remote-process.ts'
import type { Setup } from './adapter.ts'
import type { Calls } from './library-child.ts'

const CONNECT_LIMIT_MS = 10_000
const CALL_LIMIT_MS = 3_000

export interface Library {
  /** Also of its adapter. */
  readonly name: string
  readonly title: string
  readonly packages: readonly string[]
  readonly note?: string
}

export const OURS = 'bullmq-redlock'
/** Not a lock. */
export const RAW = 'raw'

const VOTES = 'the reason of a failure is looked up in every vote of `ExecutionError.attempts`'

export const libraries: readonly Library[] = [
  { name: OURS, title: 'bullmq-redlock', packages: ['bullmq-redlock', 'ioredis 6'] },
  {
    name: 'redlock-4',
    title: 'redlock 4.2',
    packages: ['redlock-4', 'ioredis', 'bluebird'],
    note: "`using` is Bluebird's with `redlock.disposer`, as its README shows; it does not renew leases",
  },
  { name: 'redlock-5', title: 'redlock 5 beta', packages: ['redlock-5', 'ioredis'], note: VOTES },
  {
    name: 'sesamecare',
    title: '@sesamecare-oss/redlock',
    packages: ['@sesamecare-oss/redlock', 'ioredis'],
    note: VOTES,
  },
  {
    name: 'redlock-universal',
    title: 'redlock-universal',
    packages: ['redlock-universal', 'ioredis'],
    note: '`timeout: 100` on its ioredis adapters (its default is 5000) bounds a dead master; it asks for Node 22 and ran on this one',
  },
  {
    name: 'redis-semaphore',
    title: 'redis-semaphore',
    packages: ['redis-semaphore', 'ioredis'],
    note: '`RedlockMutex` with `onLockLost` and its renewal; single attempts with `acquireAttemptsLimit: 1`',
  },
]

export type LibraryProcess = RemoteProcess<Calls>

/** In a process of its own. */
export function startLibrary(name: string): Promise<LibraryProcess> {
  const child = fork(new URL('library-child.ts', import.meta.url), [name], {
    execArgv: ['--expose-gc', '--import', import.meta.resolve('tsx')],
    serialization: 'advanced', // It keeps numbers that are not finite.
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  })
  return RemoteProcess.start(name, child)
}

export type Acquired =
  Calls['acquire']['answer'] | { readonly status: 'pending'; readonly limitMs: number }

type Loads = Pick<Calls, 'flow' | 'turns' | 'hold'>

/** A client of a library, in the library's process. */
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
