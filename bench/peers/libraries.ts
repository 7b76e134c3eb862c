/** The libraries of the tables, in their order, and what was configured in their favour. */
import { fork } from 'node:child_process'
import { RemoteProcess } from '../../test/support/remote-process.ts'
import type { Calls } from './library-child.ts'

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
