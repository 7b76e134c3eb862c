/** redis-semaphore's RedlockMutex, with its renewal and `onLockLost`. */
import { connectAll, disconnectAll, type Connect } from '../adapter.ts'
import { loadPeer, type PeerRedis } from '../load.ts'

interface Mutex {
  readonly isAcquired: boolean
  acquire(): Promise<void>
  release(): Promise<void>
}

interface Peer {
  readonly RedlockMutex: new (clients: readonly PeerRedis[], key: string, options: object) => Mutex
}

export const connect: Connect = async (setup) => {
  const { namespace, waitMs } = setup
  const { RedlockMutex } = await loadPeer<Peer>('redis-semaphore')
  const clients = await connectAll(setup)
  const patience = waitMs === 0 ? { acquireAttemptsLimit: 1 } : { acquireTimeout: waitMs }
  const acquired = async (resource: string, options: object): Promise<Mutex> => {
    const mutex = new RedlockMutex(clients, `${namespace}:${resource}`, { ...patience, ...options })
    await mutex.acquire()
    return mutex
  }
  return {
    keyPrefix: `mutex:${namespace}:`,
    async acquire(resource, lockTimeout) {
      const onLockLost = (): void => undefined
      const mutex = await acquired(resource, { lockTimeout, refreshInterval: 0, onLockLost })
      return {
        remainingMs: () => undefined, // It does not say.
        isHeld: () => mutex.isAcquired,
        release: () => mutex.release(),
      }
    },
    async using(resource, lockTimeout, work) {
      const listeners: (() => void)[] = []
      const onLockLost = (): void => {
        for (const lost of listeners) lost()
      }
      const mutex = await acquired(resource, { lockTimeout, onLockLost })
      try {
        return await work((lost) => listeners.push(lost))
      } finally {
        await mutex.release()
      }
    },
    reason: () => 'unknown', // TimeoutError for both.
    close: () => disconnectAll(clients),
  }
}
