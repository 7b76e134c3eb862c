/** The libraries of the tables, in their order, and what was configured in their favour. */
import { fork } from 'node:child_process'
import { RemoteProcess, type CallsOf } from '../../test/support/remote-process.ts'
import type { Adapter } from './adapter.ts'

export interface Library {
  /** Also the name of its adapter's file. */
  readonly name: string
  readonly title: string
  readonly note?: string
}

export const OURS = 'bullmq-redlock'

export const libraries: readonly Library[] = [
  { name: OURS, title: 'bullmq-redlock' },
  {
    name: 'redlock-4',
    title: 'redlock 4.2',
    note: "`using` is Bluebird's with `redlock.disposer`, as its README shows; it does not renew leases",
  },
  {
    name: 'redlock-5',
    title: 'redlock 5 beta',
    note: 'the reason of a failure is looked up in every vote of `ExecutionError.attempts`',
  },
  {
    name: 'sesamecare',
    title: '@sesamecare-oss/redlock',
    note: 'the reason of a failure is looked up in every vote of `ExecutionError.attempts`',
  },
  {
    name: 'redlock-universal',
    title: 'redlock-universal',
    note: '`timeout: 100` on its ioredis adapters (its default is 5000) bounds a dead master; it asks for Node 22 and ran on this one',
  },
  {
    name: 'redis-semaphore',
    title: 'redis-semaphore',
    note: '`RedlockMutex` with `onLockLost` and its renewal; single attempts with `acquireAttemptsLimit: 1`',
  },
]

export async function loadAdapter(name: string): Promise<Adapter> {
  const file = new URL(`adapters/${name}.ts`, import.meta.url)
  return ((await import(file.href)) as { readonly adapter: Adapter }).adapter
}

/** A program that is given the name of a library, in a process of its own. */
export function startLibrary<Calls extends CallsOf<Calls>>(
  file: URL,
  library: string,
): Promise<RemoteProcess<Calls>> {
  const child = fork(file, [library], {
    execArgv: ['--expose-gc', '--import', import.meta.resolve('tsx')],
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  })
  return RemoteProcess.start(library, child)
}
