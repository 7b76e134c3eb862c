/**
 * redlock 4.2.0, the last release that npm calls `latest`. No renewal of its own; `using` is
 * Bluebird's.
 */
import type { Adapter, Held } from '../adapter.ts'
import {
  connectAll,
  disconnectAll,
  loadPeer,
  peerVersion,
  retriesFor,
  type PeerRedis,
} from '../load.ts'

interface Lock {
  readonly expiration: number
  unlock(): PromiseLike<void>
}

interface Redlock {
  on(event: 'clientError', listener: (error: Error) => void): void
  lock(resource: string, ttlMs: number): PromiseLike<Lock>
  disposer(resource: string, ttlMs: number, onError: (error: Error) => void): object
}

interface Peer {
  readonly default: new (
    clients: readonly PeerRedis[],
    options: { retryCount: number; retryDelay: number; retryJitter: number },
  ) => Redlock
}

interface Bluebird {
  readonly default: {
    using<Result>(disposer: object, work: (lock: Lock) => Promise<Result>): PromiseLike<Result>
  }
}

const RETRY_DELAY_MS = 200

export const adapter: Adapter = {
  versions: await Promise.all(['redlock-4', 'ioredis', 'bluebird'].map(peerVersion)),
  keyPrefix: ({ namespace }) => `${namespace}:`,
  async connect(setup) {
    const { namespace, waitMs } = setup
    const { default: Redlock } = await loadPeer<Peer>('redlock-4')
    const { default: bluebird } = await loadPeer<Bluebird>('bluebird')
    const clients = await connectAll(setup)
    const retryCount = retriesFor(waitMs, RETRY_DELAY_MS)
    const redlock = new Redlock(clients, {
      retryCount,
      retryDelay: RETRY_DELAY_MS,
      retryJitter: 100,
    })
    redlock.on('clientError', () => undefined)
    return {
      acquire: async (resource, ttlMs) =>
        heldBy(await redlock.lock(`${namespace}:${resource}`, ttlMs)),
      async using(resource, ttlMs, work) {
        const disposer = redlock.disposer(`${namespace}:${resource}`, ttlMs, () => undefined)
        return await bluebird.using(disposer, () => work(() => undefined))
      },
      reason: () => Promise.resolve('unknown'), // LockError for both; `attempts` is only a number.
      close: () => disconnectAll(clients),
    }
  },
}

function heldBy(lock: Lock): Held {
  const remainingMs = (): number => lock.expiration - Date.now()
  return {
    remainingMs,
    isHeld: () => remainingMs() > 0,
    release: async () => lock.unlock(),
  }
}
