/** The libraries of the tables, in their order, and clients of them. */
import { fork } from 'node:child_process'
import { RemoteProcess } from '../../test/support/remote-process.ts'
import type { Setup } from './adapters.ts'
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
export async function connectClient(process: LibraryProcess, setup: Setup) {
  const { client, keyPrefix } = await process.ask('connect', setup, CONNECT_LIMIT_MS)
  /** @throws Error when there is no answer within {@link CALL_LIMIT_MS}. */
  const soon = <Name extends keyof Calls>(
    name: Name,
    argument: Calls[Name]['argument'],
  ): Promise<Calls[Name]['answer']> => process.ask(name, argument, CALL_LIMIT_MS)
  return {
    ...{ process, soon },
    key: (resource: string) => `${keyPrefix}${resource}`,
    load<Name extends keyof Loads>(name: Name, load: Omit<Loads[Name]['argument'], 'client'>) {
      return process.ask(name, { ...load, client } as Loads[Name]['argument'])
    },
    async acquire(resource: string, ttlMs: number, limitMs: number): Promise<Acquired> {
      const outcome = await process.call('acquire', { client, resource, ttlMs }, limitMs)
      if (outcome.status === 'answered') return outcome.answer
      if (outcome.status === 'pending') return outcome
      throw new Error(outcome.message)
    },
    startUsing: (resource: string, ttlMs: number, nested = false) =>
      soon('startUsing', { client, resource, ttlMs, nested }),
    release: (held: number) => process.call('release', held, CALL_LIMIT_MS),
    close: () => process.call('close', { client }, CALL_LIMIT_MS),
  }
}

export type RemoteClient = Awaited<ReturnType<typeof connectClient>>
