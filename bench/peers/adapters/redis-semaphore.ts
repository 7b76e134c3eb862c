/** redis-semaphore's RedlockMutex, with its renewal and `onLockLost`. */
import type { Adapter, Held } from '../adapter.ts'
import { connectAll, disconnectAll, loadPeer, peerVersion, type PeerRedis } from '../load.ts'

interface Mutex {
  readonly isAcquired: boolean
  acquire(): Promise<void>
  release(): Promise<void>
}

interface Options {
  readonly lockTimeout: number
  readonly acquireTimeout?: number
  readonly acquireAttemptsLimit?: number
  readonly refreshInterval?: number
  readonly onLockLost: (error: Error) => void
}

interface Peer {
  readonly RedlockMutex: new (clients: readonly PeerRedis[], key: string, options: Options) => Mutex
}

export const adapter: Adapter = {
  versions: await Promise.all(['redis-semaphore', 'ioredis'].map(peerVersion)),
  keyPrefix: ({ namespace }) => `mutex:${namespace}:`,
  async connect(setup) {
    const { namespace, waitMs } = setup
    const { RedlockMutex } = await loadPeer<Peer>('redis-semaphore')
    const clients = await connectAll(setup)
    const patience = waitMs === 0 ? { acquireAttemptsLimit: 1 } : { acquireTimeout: waitMs }
    const mutexOn = (resource: string, options: Options): Mutex =>
      new RedlockMutex(clients, `${namespace}:${resource}`, { ...patience, ...options })
    return {
      async acquire(resource, lockTimeout) {
        const mutex = mutexOn(resource, {
          lockTimeout,
          refreshInterval: 0,
          onLockLost: () => undefined,
        })
        await mutex.acquire()
        return heldBy(mutex)
      },
      async using(resource, lockTimeout, work) {
        const listeners: (() => void)[] = []
        const onLockLost = (): void => {
          for (const lost of listeners) lost()
        }
        const mutex = mutexOn(resource, { lockTimeout, onLockLost })
        await mutex.acquire()
        try {
          return await work((lost) => listeners.push(lost))
        } finally {
          await mutex.release()
        }
      },
      reason: () => Promise.resolve('unknown'), // TimeoutError for both.
      close: () => disconnectAll(clients),
    }
  },
}

function heldBy(mutex: Mutex): Held {
  return {
    remainingMs: () => undefined, // It does not say.
    isHeld: () => mutex.isAcquired,
    release: () => mutex.release(),
  }
}
